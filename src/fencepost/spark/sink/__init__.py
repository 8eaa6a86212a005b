"""The exactly-once sink: one Kafka transaction per micro-batch, written by all executors, with the offsets in it.

===============  =====================================================================================================
`pipeline`       a batch from beginning to end: fence, decide, run, commit; what to do if one of them fails
`batch`          a batch as the user writes it: several DataFrames, one transaction
`active`         what the pipelines of this process do: which query runs each, which batch failed
`queries`        the running query as Spark knows it, in a classic session and with Spark Connect
`microbatch`     a batch as Spark knows it: its query, its number, its start and end offsets
`ending`         how an attempt ends in Kafka: ledger entry, offsets, commit
`inherited`      what the sink takes from the query's sources: pipeline name and cluster
`standing`       how far the pipeline has come, by the ledger and the committed offsets
`decide`         run a batch, skip it or refuse it: a pure function
`columns`        the columns of a record, checked and selected
`dead_letters`   rows that cannot be written, as records of a topic of their own
`jobs`           the Spark job that writes a DataFrame: columns checked, stages put together
`stages`         what executors do: rows to record batches, record batches to Kafka
`small`          a small batch, which the driver collects and writes
`handover`       on one machine: what encoders hand to the driver, which writes it meanwhile
`failures`       which errors another attempt may not have; how a failed batch is reported
`fencing`        taking the transactional id over before a query starts
`stopping`       how a query of Spark Connect is stopped in a batch
`opening`        the transaction of one attempt, begun once
`permits`        who may write: each writer asks the driver and gets at most one permit
`deadline`       cancels a job whose transaction has exceeded its timeout
`steps`          the numbered steps of a batch, for tests that kill the driver at each
`settings`       the sink's arguments and options
`progress`       what has been committed, for users and listeners
`plain`          a batch query's DataFrame in one transaction, and its default transactional ids
`encoded`        record batches on their way through the driver, for Spark's standard writer API
`save`           a batch query through that API
`stream_save`    a streaming query through that API: what tasks do, and what the driver's side gets
`stream_commit`  its micro-batch from finished record batches to the commit
`logged`         its query and micro-batch as the checkpoint has them
===============  =====================================================================================================
"""
