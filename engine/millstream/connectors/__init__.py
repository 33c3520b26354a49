"""Connectors: programs that fill topics from elsewhere, or carry their records there.

They run in the workers of Kafka Connect, which is asked over its REST interface.

* `connector`: what is known of one. `kafka_connect`, `opening`: the client of Kafka Connect.
"""
