"""Where Spark looks for the data source: in packages whose names begin like this one's."""

from millstream.history.data_source import MillstreamSource as DefaultSource

__all__ = ["DefaultSource"]
