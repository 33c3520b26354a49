"""The HTTP server: ksqlDB's API over an engine, for its clients and any others."""
