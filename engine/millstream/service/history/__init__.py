"""Queries over what was: planned, run over a part of the log, their rows handed on as they come."""
