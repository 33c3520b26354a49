"""Spark's entry point of the data source: Spark searches packages whose names begin like this
one's."""

from millstream.history.data_source import MillstreamSource as DefaultSource

__all__ = ["DefaultSource"]
