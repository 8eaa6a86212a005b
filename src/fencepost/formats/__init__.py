"""What the bytes of a key or value mean: JSON, text, numbers; a column at a time, to Arrow and back.

`format` says what a format is, `named` finds one by its name, and the others are one format each. Nothing here knows
Spark or the network: the source decodes what it has fetched, the sink encodes before it makes record batches.
"""
