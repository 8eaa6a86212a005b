"""The exactly-once sink: one Kafka transaction per micro-batch, written by all executors, with the offsets in it.

===============  =====================================================================================================
`pipeline`       a batch from beginning to end: fence, decide, run, commit; and what to do when that fails
`batch`          a batch as its user writes it: several DataFrames, one transaction
`microbatch`     what Spark says of a batch: which query, which number, from where to where
`standing`       what Kafka says: how far the pipeline has come
`decide`         skip it, run it or refuse it: a pure function
`stages`         what executors do: rows to record batches, record batches to Kafka
`permits`        who may write: each writer asks the driver, and is told yes once
`settings`       what a user can set
`progress`       what has been done, to be shown
`plain`          a batch query's DataFrame in one transaction
===============  =====================================================================================================
"""
