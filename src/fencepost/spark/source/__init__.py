"""The data source `fencepost`: Kafka topics as batch and streaming DataFrames.

::

    data_source.py   what Spark finds under the name: schema, readers
    read_options.py  options, under the names and with the defaults of Spark's Kafka source
    positions.py     which partitions there are, and where reading begins and ends in them
    admission.py     how much of what is there the next batch takes (pure)
    splitting.py     ranges of offsets to tasks (pure)
    planner.py       a stream's offsets from batch to batch; runs in the one process that Spark keeps for it
    readers.py       Spark's interfaces over the above, and the reading itself, in the workers
"""
