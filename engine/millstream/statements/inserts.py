"""What INSERT, COPY and streamed rows of clients are appended with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from millstream.log.reopening import ReopeningWriter
from millstream.queries.registry import QueryRegistry


@dataclass(frozen=True, slots=True)
class Inserts:
    """The sources that take rows, and the writer that appends them. `clock`: the time of day in
    ms, which is the time of a row without ROWTIME."""

    registry: QueryRegistry
    writer: ReopeningWriter[pa.Table]
    clock: Callable[[], int]
