"""The threads that run queries and restore their state."""
