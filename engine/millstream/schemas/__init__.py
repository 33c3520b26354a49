"""Schema registries: the one within a database, and the clients of others."""
