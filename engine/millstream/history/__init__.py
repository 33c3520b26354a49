"""Queries over what was logged: the streaming runtime, run from one offset to another."""
