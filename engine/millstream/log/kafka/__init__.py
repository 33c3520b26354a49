"""The log on Apache Kafka: confluent-kafka behind the `Log` protocol."""
