"""Historical queries: the streaming runtime, run from one offset to another."""
