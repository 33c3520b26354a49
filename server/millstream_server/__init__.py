"""The HTTP server: ksqlDB's API over an engine, for its clients and for everybody else's."""
