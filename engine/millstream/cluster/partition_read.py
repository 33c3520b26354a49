"""The request of one instance to another for rows of a table. It never contains SQL."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from millstream.model.errors import StatementError, UnavailableError
from millstream.query.conditions import OPERATORS, Condition

ACTIVE_ONLY = -1
"""The maximum lag where standbys must not be read."""
NOT_READY = "E-NOT-READY"
VERSION = 2


@dataclass(frozen=True, slots=True)
class PartitionRead:
    """Requests the rows of `table`, materialized by `query_id`, in these partitions that satisfy
    `conditions`.

    `columns`: the expected physical names and DuckDB types. `lag_max`: the maximum lag in records
    of a standby that may be read; ACTIVE_ONLY if none may. `snapshot`: the id of a snapshot on the
    instance to read from; "" for the current state.
    """

    table: str
    query_id: str
    partitions: frozenset[int]
    columns: tuple[tuple[str, str], ...]
    conditions: tuple[Condition, ...] = ()
    lag_max: int = ACTIVE_ONLY
    snapshot: str = ""


def encode_request(request: PartitionRead) -> bytes:
    """Serialise a request."""
    conditions = [[c.column, c.operator, list(c.values)] for c in request.conditions]
    entry = {
        "version": VERSION,
        "table": request.table,
        "query": request.query_id,
        "partitions": sorted(request.partitions),
        "columns": [list(column) for column in request.columns],
        "conditions": conditions,
        "lag_max": request.lag_max,
        "snapshot": request.snapshot,
    }
    return json.dumps(entry).encode()


def decode_request(content: bytes) -> PartitionRead:
    """Deserialise a request; StatementError for any other content."""
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


_RETRY = "Retry; the partition is being moved or restored, or its instance is unavailable."


def not_ready(query_id: str, partition: int, why: str, hint: str = _RETRY) -> UnavailableError:
    """The error for a partition that no instance can serve now."""
    return UnavailableError(
        f"{NOT_READY} partition {partition} of {query_id} {why}",
        hint=hint,
        code=NOT_READY,
    )
