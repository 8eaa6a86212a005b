"""A query's SQL on Arrow columns: what Spark's planner has analysed, evaluated in the process that encodes the records.

Spark turns every record into a row and back into Arrow between the source and the sink, which costs several times as
much as an ordinary projection itself. So a query that consists of projections and filters over one `fencepost` source
is not run by Spark's executors row by row: tasks read their ranges of offsets as tables, evaluate the query's
expressions a column at a time, and encode the records. Spark plans the batch and schedules the tasks as before.

Invariant: a record has the same bytes either way. Only expressions are taken whose meaning is known for every value of
their types. What depends on the value and is not certain (an overflow, a division by zero, NaN in a comparison) raises
`Uncertain`, and the batch is run by Spark, which gives the result or the error.

=============  =========================================================================================================
`plan`         the analysed plan in the JVM, as steps; or why not
`expressions`  Spark's expression trees, made of what Spark tells as JSON
`functions`    what each expression does to Arrow columns
`nested`       the same for structs and lists
`program`      the steps, run on a table
`ranges`       the ranges of offsets of a micro-batch, read and evaluated by tasks, or by the driver
`rebase`       the query's own plan on the rows of a batch, for a batch that Spark runs
=============  =========================================================================================================
"""
