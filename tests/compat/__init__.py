"""Apache Kafka's own programs as judges: its tools, its perf tests, its log dumper and Kafka Streams."""
