"""Connectors: programs that fill topics from elsewhere, or carry their records there.

They run in the workers of Kafka Connect, which is asked over its REST interface, or, for made-up
records in a database that has none, in this process.

* `connector`: what is known of one, and the interface. `opening`: which ones a database has.
* `kafka_connect`: the client of Kafka Connect.
* `embedded`: connectors in this process. `datagen`, `presets`: what they make up.
"""
