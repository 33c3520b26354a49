"""The processor of the crash test: counts the records of each key, and tells now and then."""

from __future__ import annotations

import datetime as dt
from typing import Any

import millstream
from millstream import KeyValueStore, Processor, ProcessorContext, Record, Topology

TICK = dt.timedelta(milliseconds=20)
SQL = (
    "CREATE STREAM counted WITH (kafka_topic='counted') AS "
    "SELECT * FROM PROCESS(numbers, 'Ticking');"
)


def topology(ticking: type[Processor]) -> Topology:
    """The processor in a topology with two sinks."""
    return (
        Topology()
        .add_source("source", "numbers")
        .add_processor("ticking", ticking, "source")
        .add_sink("counted", "counted", "ticking")
        .add_sink("again", "again", "ticking")
    )


class Ticking(Processor):
    """Each record becomes its key's count and sum so far. Each 20 ms of stream time becomes how
    many times that was, with the count of the task's records, under a key of the task."""

    output = "k STRING KEY, c BIGINT, s BIGINT"

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._sums = context.store("sums", KeyValueStore("STRING", "STRUCT<c BIGINT, s BIGINT>"))
        self._counts = context.store("counts", KeyValueStore("STRING", "BIGINT"))
        context.schedule(TICK, millstream.STREAM_TIME, self._tick)

    def process(self, record: Record) -> None:
        before: dict[str, Any] = self._sums.get(record.key, {"C": 0, "S": 0})
        now = {"C": before["C"] + 1, "S": before["S"] + record.value["N"]}
        self._sums.put(record.key, now)
        self._add("records")
        self._context.forward(record.key, now)

    def _tick(self, time: dt.datetime) -> None:
        records = self._counts.get("records")
        row = {"C": self._add("ticks"), "S": records}
        self._context.forward(f"tick-{self._context.partition}", row)

    def _add(self, name: str) -> int:
        count: int = self._counts.get(name, 0) + 1
        self._counts.put(name, count)
        return count
