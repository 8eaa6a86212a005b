"""The machinery of the lab: brokers and processes that can be started, killed and paused.

brokers     one broker to be broken: ours, or a cluster that runs already
kafka       Apache Kafka from its jars
children    programs of ours that say in JSON lines how far they are
processes   a process with all that it started: found, sent signals, made to stand still
raw         a producer that sends what it is told, to the right broker of a cluster
"""
