"""Processors: operators that users write in Python, with state and schedules."""
