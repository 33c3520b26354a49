"""A log that lasts as long as its object, for tests of users: as cheap as lists of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from millstream.log.arrival import after_openings, with_arrivals
from millstream.log.batches import TABLES
from millstream.log.log import Appended, Topic
from millstream.log.simulated import SimulatedLog
from millstream.log.simulated_records import Transaction
from millstream.model.batch import ARRIVAL, NO_RECORDS

_NONE = NO_RECORDS.append_column(ARRIVAL, pa.array([], pa.int64()))


class InMemoryLog(SimulatedLog[pa.Table]):
    """The simulated log without failures, with the arrival numbers and record headers of the
    embedded one. Opening a file of DuckDB, and its statements, would take most of the time of a
    small test."""

    def __init__(self) -> None:
        super().__init__(replace(TABLES, join=_joined))
        self._arrivals = after_openings(0)

    def create_topic(self, topic: Topic) -> None:
        """See `Log`."""
        super().create_topic(replace(topic, numbered=True))

    def _add(self, appended: Sequence[Appended[pa.Table]], transaction: Transaction | None) -> None:
        numbered, following = with_arrivals(appended, self._arrivals.following)
        self._arrivals = replace(self._arrivals, following=following)
        super()._add(numbered, transaction)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Only some batches have headers."""
    return pa.concat_tables(tables, promote_options="default") if tables else _NONE
