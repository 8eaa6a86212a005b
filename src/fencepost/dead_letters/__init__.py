"""Dead letters: records that a pipeline could not write, in a topic of their own, with headers that say why.

The Spark sink writes them (`spark.sink.dead_letters`). Here is what they look like, and what reads them again:

=============  =======================================================================================================
`letter`       a dead letter: its headers, and what they say
`reading`      the letters of a topic: selected, counted, the last of them
`judge`        whether a letter can be written again, and where: a pure function
`replay`       writing letters again, each once
`replayed`     the record of what was replayed, in a compacted topic
=============  =======================================================================================================

Needs the base installation only: neither Spark nor NumPy nor PyArrow.
"""
