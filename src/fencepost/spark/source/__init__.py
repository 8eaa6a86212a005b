"""The data source `fencepost`: Kafka topics as batch and streaming DataFrames.

::

    data_source.py   the entry point for Spark: schema, readers
    read_options.py  options, under the names and with the defaults of Spark's Kafka source
    positions.py     which partitions there are, and where reading begins and ends in them; a batch query's ranges
    admission.py     how much the next batch reads (pure)
    splitting.py     ranges of offsets to tasks (pure)
    planner.py       a stream's offsets from batch to batch, in the process that Spark keeps for it
    unguided.py      the same for Spark 4.0 and 4.1, which do not say where the query stands
    readers.py       Spark's interfaces over the above, and the reading itself, in the workers
    stream_reader_limited.py, stream_reader_unguided.py
                     the interface of a stream's reader in Spark 4.2, and in 4.0 and 4.1
    lag.py           how far a query is behind its topics
"""
