"""Checkpoints of state at a place that a URL names, for instances without that state."""
