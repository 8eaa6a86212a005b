"""The web console: a page that shows the transactions, logs, groups and pipelines of any Kafka while they happen.

`sampling` asks the cluster in threads of its own and puts what it finds on the `board`. The page reads the board
through server-sent events, and asks for details through JSON. So a slow or dead broker never holds up the page: it
shows what was known last, and how old that is. Needs `fencepost[console]`.
"""
