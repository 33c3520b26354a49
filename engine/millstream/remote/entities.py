"""A server's answers to statements without rows, as results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from millstream.query.results import Done, Result, Rows

Entity = Mapping[str, Any]
_ABOUT = frozenset({"@type", "statementText", "warnings", "commandSequenceNumber"})


def result_of(entities: Sequence[Entity]) -> Result:
    """The result of the last statement. A listing has the fields of the API as its columns."""
    if not entities:
        return Done("Done")
    entity = entities[-1]
    status = entity.get("commandStatus")
    if status is not None:
        return Done(str(status["message"]).split("\n")[0], status.get("queryId"))
    if entity.get("@type") == "warning_entity":
        return Done(str(entity["message"]), changed=False)
    fields = {name: value for name, value in entity.items() if name not in _ABOUT}
    match list(fields.values()):
        case [list(items)] if all(isinstance(item, dict) for item in items):
            return Rows(_table(items))
        case [dict(item)]:
            return Rows(_table([item]))
    return Rows(_table([fields]))


def _table(items: Sequence[Mapping[str, Any]]) -> pa.Table:
    names = list(dict.fromkeys(name for item in items for name in item))
    columns = {name: pa.array([_shown(item.get(name)) for item in items]) for name in names}
    return pa.table(columns) if names else pa.table({"message": pa.array([], pa.string())})


def _shown(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=str)
