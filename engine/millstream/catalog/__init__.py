"""Streams, tables and types known to the engine, as immutable snapshots."""
