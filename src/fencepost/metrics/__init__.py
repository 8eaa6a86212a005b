"""Metrics in Prometheus' text format, for the broker and for pipelines: counting, writing the text, answering HTTP.

What is counted is with the thing that happens (`log.counts`, `coordinator.txn.counts`, `broker.counts`,
`spark.metrics`). Nothing here knows of any of them, and nothing needs a package beyond Python's own.
"""
