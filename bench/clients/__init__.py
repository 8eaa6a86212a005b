"""The clients that put load on a broker, each in a process of its own: Kafka's perf tools and confluent-kafka."""
