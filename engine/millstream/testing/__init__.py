"""Tests of streams, tables and queries: `TopologyTestDriver` runs SQL on an engine in memory,
without threads or clocks. docs/testing.md shows how.

`pytest_millstream` brings it to pytest as fixtures. `drawn` reads batches that are drawn as text.
"""

from millstream.testing.driver import TopologyTestDriver
from millstream.testing.records import OutputRecord, Window
from millstream.testing.topics import InputTopic, OutputTopic

__all__ = ["InputTopic", "OutputRecord", "OutputTopic", "TopologyTestDriver", "Window"]
