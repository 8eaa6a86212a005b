"""Side-by-side measurements of fencepost and Apache Kafka: the same client, the same settings, the same run."""
