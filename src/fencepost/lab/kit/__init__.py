"""The machinery of the lab: brokers and programs that can be started, killed and paused.

servers     a broker to be broken or measured: ours, or a cluster that runs already
kafka       Apache Kafka, on one node and on three
java        the Java that runs Kafka's programs from its jars
programs    programs of ours that say in JSON lines how far they are
raw         a producer that sends what it is told, to the right broker of a cluster
"""
