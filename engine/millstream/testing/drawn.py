"""Batches drawn as text, for tests: one record or row per line.

```
+ a 1 @10        key a, value 1, event time 10
+ a _ @11        a NULL column
- a @12          no value: a deletion, a record with a NULL value
+ b 2 @13 /1     in partition 1 (0 where nothing is said)
```
Words are JSON where they parse as JSON and text otherwise; `_` is NULL. The key is the first word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millstream.log.log import Appended, Fetched
from millstream.model.batch import raw_batch


@dataclass(frozen=True, slots=True)
class Line:
    """One drawn record. `values` is None for a record without a value."""

    key: Any
    values: tuple[Any, ...] | None
    time: int
    partition: int = 0


def lines(text: str) -> tuple[Line, ...]:
    """The records of a drawing, in order; blank lines are skipped."""
    return tuple(_line(line.split()) for line in text.splitlines() if line.strip())


def _line(words: Sequence[str]) -> Line:
    sign, key, *rest = words
    time, partition, values = 0, 0, []
    for word in rest:
        if word.startswith("@"):
            time = int(word[1:])
        elif word.startswith("/"):
            partition = int(word[1:])
        else:
            values.append(_word(word))
    if sign not in "+-":
        raise ValueError(f"a drawn record starts with + or -, not {sign!r}")
    return Line(_word(key), tuple(values) if sign == "+" else None, time, partition)


def _word(word: str) -> Any:
    if word == "_":
        return None
    try:
        return json.loads(word)
    except ValueError:
        return word


def raw(records: Iterable[Line], names: Sequence[str]) -> pa.Table:
    """A raw batch: keys as KAFKA strings, values as JSON objects with these field names."""
    return raw_batch(
        [
            (
                None if line.key is None else str(line.key).encode(),
                None
                if line.values is None
                else json.dumps(dict(zip(names, line.values, strict=True))).encode(),
                line.time,
            )
            for line in records
        ]
    )


def fetched(
    topic: str, partition: int, batch: pa.Table, *, start: int = 0, end: bool = True
) -> Fetched[pa.Table]:
    """A raw batch as read from a log at offset `start`."""
    offsets = pa.array(range(start, start + batch.num_rows), pa.int64())
    numbered = batch.set_column(0, "offset", offsets)
    return Fetched(topic, partition, numbered, batch.num_rows, start + batch.num_rows, end)


def shown(appended: Iterable[Appended[pa.Table]]) -> list[str]:
    """Appended raw records as drawn lines: keys as text, values as compact JSON members."""
    result = []
    for item in appended:
        for row in item.batch.to_pylist():
            key = "_" if row["key"] is None else row["key"].decode()
            place = f" /{item.partition}" if item.partition else ""
            if row["value"] is None:
                result.append(f"- {key} @{row['timestamp']}{place}")
                continue
            value = json.loads(row["value"])
            members = value.values() if isinstance(value, dict) else [value]
            words = " ".join("_" if v is None else _text(v) for v in members)
            result.append(f"+ {key} {words} @{row['timestamp']}{place}")
    return result


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
