"""Dead letters: records that a pipeline could not write, in a topic of their own, with headers that say why.

The Spark sink writes them (`spark.sink.dead_letters`). Here is what they look like (`letter`).

Needs the base installation only: neither Spark nor NumPy nor PyArrow.
"""
