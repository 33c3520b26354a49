"""The example of KIP-28: sums for each key in a store, which are all sent again each second.

python examples/local_state.py
"""

from __future__ import annotations

import datetime as dt

import millstream
from millstream import KeyValueStore, Processor, ProcessorContext, Record, Topology


class LocalState(Processor):
    """Sums the values of each key, and forwards all sums once in a second of event time."""

    output = "name STRING KEY, total INT"

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._sums = context.store("local_state", KeyValueStore("STRING", "INT"))
        context.schedule(dt.timedelta(seconds=1), millstream.STREAM_TIME, self._send)

    def process(self, record: Record) -> None:
        self._sums.put(record.key, self._sums.get(record.key, 0) + record.value["VALUE"])

    def _send(self, time: dt.datetime) -> None:
        for name, total in self._sums.range():
            self._context.forward(name, {"TOTAL": total})


TOPOLOGY = (
    Topology()
    .add_source("source", "topic-source", key="name STRING", value="value INT", partitions=1)
    .add_processor("processor", LocalState, "source")
    .add_sink("sink", "topic-sink", "processor")
)
FUNCTIONS = TOPOLOGY.processors("local_state")
RECORDS = [(0, "a", 1), (400, "b", 2), (900, "a", 3), (1200, "b", 4)]


def run(database: millstream.Database) -> None:
    """Send the records, and print what is on the other topic then."""
    database.deploy(TOPOLOGY, "local_state")
    for millisecond, name, value in RECORDS:
        database.insert("source", [{"name": name, "value": value, "ROWTIME": millisecond}])
    database.wait()
    found = database.execute("SELECT * FROM sink")
    assert isinstance(found, millstream.History)
    for name, total in found:
        print(f"[{name}, {total}]")


if __name__ == "__main__":
    with millstream.connect(functions=FUNCTIONS) as opened:
        run(opened)
