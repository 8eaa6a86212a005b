"""The machinery of the lab: brokers and programs that can be started, killed and paused.

servers     a broker to be broken or measured: ours, or a cluster that runs already
kafka       Apache Kafka, on one node and on three
target      which of these a command works on, and how secured
java        the Java that runs Kafka's programs from its jars
programs    programs of ours that report their progress in JSON lines
raw         a producer that sends exactly what it is told, to the right broker of a cluster
"""
