"""What one instance asks another for: rows of a table, never a text of SQL."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from millstream.model.errors import StatementError, UnavailableError
from millstream.query.conditions import OPERATORS, Condition

ACTIVE_ONLY = -1
"""The lag of those who may be read where standbys may not."""
NOT_READY = "E-NOT-READY"
VERSION = 2


@dataclass(frozen=True, slots=True)
class PartitionRead:
    """The rows of `table`, as `query_id` keeps them, in these partitions and meeting `conditions`.

    `columns`: (name, DuckDB type) of what is expected, under physical names. A copy may be read
    that lags by `lag_max` records at most, ACTIVE_ONLY for none.
    With the id of a `snapshot` that the instance keeps, the rows are those that it shows.
    """

    table: str
    query_id: str
    partitions: frozenset[int]
    columns: tuple[tuple[str, str], ...]
    conditions: tuple[Condition, ...] = ()
    lag_max: int = ACTIVE_ONLY
    snapshot: str = ""


def ask_bytes(ask: PartitionRead) -> bytes:
    """An ask as it travels."""
    conditions = [[c.column, c.operator, list(c.values)] for c in ask.conditions]
    entry = {
        "version": VERSION,
        "table": ask.table,
        "query": ask.query_id,
        "partitions": sorted(ask.partitions),
        "columns": [list(column) for column in ask.columns],
        "conditions": conditions,
        "lag_max": ask.lag_max,
        "snapshot": ask.snapshot,
    }
    return json.dumps(entry).encode()


def read_ask(content: bytes) -> PartitionRead:
    """The ask that travelled; StatementError for what is none."""
    try:
        entry = json.loads(content)
        if entry["version"] != VERSION:
            raise ValueError("it is of another version")
        return PartitionRead(
            _text(entry["table"]),
            _text(entry["query"]),
            frozenset(_number(p) for p in entry["partitions"]),
            tuple((_text(name), _text(kind)) for name, kind in entry["columns"]),
            tuple(_condition(*item) for item in entry["conditions"]),
            _number(entry["lag_max"]),
            _text(entry["snapshot"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StatementError("This is not what an instance asks another for") from error


def _condition(column: Any, operator: Any, values: Any) -> Condition:
    if operator not in OPERATORS or not values:
        raise ValueError("the condition is not known")
    return Condition(
        _text(column), operator, tuple(v if isinstance(v, str) else _number(v) for v in values)
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is expected")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("a whole number is expected")
    return value


def not_ready(query_id: str, partition: int, why: str) -> UnavailableError:
    """The error for a partition that nobody can be asked for now."""
    return UnavailableError(
        f"{NOT_READY} partition {partition} of {query_id} {why}",
        hint="Ask again; it is being moved or restored, or its instance is away.",
        code=NOT_READY,
    )
