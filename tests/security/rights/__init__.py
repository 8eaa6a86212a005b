"""Which rights each API needs, and what is answered without them: one table, for our broker and for Apache Kafka.

`table` has the rows, `runner` makes a user for every row with all its rights and for every right taken away.
"""
