"""The types of the columns that the source gives and the sink recognises, as Spark's `simpleString` writes them.

They are also types for a DDL. The sink knows `raw` and the records that the source could not read by these.
"""

HEADERS = "array<struct<key:string,value:binary>>"
#: The bytes of a record.
RAW = "struct<key:binary,value:binary>"
#: The bytes of a record that could not be read, and why.
UNREAD = "struct<key:binary,value:binary,reason:string>"
#: Where a record is from.
POSITION = "struct<topic:string,partition:int,offset:bigint>"
