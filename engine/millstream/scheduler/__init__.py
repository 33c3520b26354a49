"""The threads that process queries and restore state, and the locks between them."""
