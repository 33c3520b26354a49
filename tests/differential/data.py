"""Random records: NULL-rich, with skewed keys, times out of order and doubled, deletions.

Also how a value is written to the log: JSON and DELIMITED, and where a key belongs.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from tests.differential.describe import Case, Column, Record, Source
from tests.differential.rules import AMOUNT, INTS, MAP, STRINGS, STRUCT

DAY = 86_400_000
WORDS = ("a", "b", "aa", "Ab", "", " x ", "12", "-7", "ä", 'b,"c', "it's", "cab", "a\n   b")
ODD_WORDS = (
    "😀",
    "a😀b",
    "b😀",
    "b\r\n",
    "-- b",
    "/*b",
    "b*/ ;",
    "$$a$$",
    "\0",
    "a\0b\0",
    "{0} %s",
)
"""Two UTF-16 units in one character, and what would be something else in a program's text."""
KEY_WORDS = ("a", "b", "c", "dd", "e")
_SHIFTS = (0, 0, 0, 1, 1, 2, 5, 20)


def value_of(rng: random.Random, kind: str) -> Any:
    """A value of a type, NULL one time in six."""
    return None if rng.random() < 0.17 else present(rng, kind)


def present(rng: random.Random, kind: str) -> Any:
    """A value of a type that is not NULL."""
    match kind:
        case "INT":
            return rng.choice((2**31 - 1, -(2**31))) if rng.random() < 0.03 else rng.randint(-3, 9)
        case "BIGINT":
            return rng.choice((2**63 - 1, -(2**63))) if rng.random() < 0.03 else rng.randint(-5, 99)
        case "DOUBLE":
            return rng.randint(-20, 40) / 4
        case "STRING":
            return rng.choice(ODD_WORDS if rng.random() < 0.15 else WORDS)
        case "BOOLEAN":
            return rng.random() < 0.5
        case "DATE":
            return rng.randint(-400, 20_000)
        case "TIME":
            return rng.randint(0, DAY // 1000 - 1) * 1000
        case "TIMESTAMP":
            return rng.randint(0, 20_000 * DAY)
    return _nested(rng, kind)


def _nested(rng: random.Random, kind: str) -> Any:
    if kind == AMOUNT:
        return Decimal(rng.randint(-5_000, 9_999)).scaleb(-2)
    if kind == INTS:
        return [value_of(rng, "INT") for _ in range(rng.randint(0, 4))]
    if kind == STRINGS:
        return [value_of(rng, "STRING") for _ in range(rng.randint(0, 3))]
    if kind == MAP:
        return {name: value_of(rng, "INT") for name in rng.sample("abc", rng.randint(0, 3))}
    if kind == STRUCT:
        return {"A": value_of(rng, "INT"), "B": value_of(rng, "STRING")}
    raise ValueError(f"no values of type {kind}")


def key_part(rng: random.Random, kind: str) -> Any:
    """A key value: few of them, the first much more often than the others."""
    rank = min(int(rng.expovariate(0.8)), 4)
    return KEY_WORDS[rank] if kind == "STRING" else rank


def records(
    rng: random.Random, sources: Sequence[Source], count: int, chunks: int, *, apart: bool
) -> tuple[Record, ...]:
    """Records of all sources. `apart`: a chunk holds records of one source only."""
    time, found = rng.choice((0, 10_000, 1_700_000_000_000)), []
    pace = rng.choice((1, 5, 20))
    cuts = sorted(rng.randint(0, count) for _ in range(chunks - 1))
    turn = rng.randrange(len(sources))
    for number in range(count):
        chunk = sum(cut <= number for cut in cuts)
        index = (turn + chunk) % len(sources) if apart else rng.randrange(len(sources))
        time += rng.choice(_SHIFTS) * pace
        late = rng.choice((0, 0, 0, 3, 10, 40)) * pace
        found.append(_record(rng, sources, index, max(0, time - late), chunk))
    return tuple(found)


def _record(
    rng: random.Random, sources: Sequence[Source], index: int, time: int, chunk: int
) -> Record:
    source = sources[index]
    key: tuple[Any, ...] | None = None
    if source.keys and not (source.kind == "STREAM" and rng.random() < 0.06):
        key = tuple(key_part(rng, column.type) for column in source.keys)
    dead = rng.random() < (0.15 if source.kind == "TABLE" else 0.05)
    if dead:
        return Record(index, key, None, time, chunk)
    return Record(index, key, row(rng, source.values), time, chunk)


def row(rng: random.Random, columns: Sequence[Column]) -> tuple[Any, ...]:
    """Values for columns; those called F… refer to keys of another source."""
    return tuple(
        (None if rng.random() < 0.1 else key_part(rng, column.type))
        if column.name.startswith("F")
        else value_of(rng, column.type)
        for column in columns
    )


# ---- bytes --------------------------------------------------------------------------------------


def _json(value: Any) -> bytes:
    if isinstance(value, Decimal):
        return str(value).encode()
    if isinstance(value, dict):
        members = (json.dumps(name).encode() + b":" + _json(item) for name, item in value.items())
        return b"{" + b",".join(members) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(_json(item) for item in value) + b"]"
    return json.dumps(value, ensure_ascii=False).encode()


def _field(value: Any) -> str:
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if any(mark in text for mark in ',"\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def key_bytes(source: Source, key: tuple[Any, ...] | None) -> bytes | None:
    """A key as it lies on the log."""
    if key is None:
        return None
    if source.key_format == "KAFKA":
        (only,) = key
        return only.encode() if isinstance(only, str) else only.to_bytes(4, "big", signed=True)
    if len(key) == 1:
        return _json(key[0])
    return _json(dict(zip((column.name for column in source.keys), key, strict=True)))


def value_bytes(source: Source, value: tuple[Any, ...] | None) -> bytes | None:
    """A value as it lies on the log."""
    if value is None:
        return None
    if source.value_format == "DELIMITED":
        return ",".join(_field(item) for item in value).encode()
    return _json(dict(zip((column.name for column in source.values), value, strict=True)))


def partition_of(key: bytes | None, partitions: int, otherwise: int) -> int:
    """The partition of a key as Kafka's clients choose it (murmur2)."""
    if key is None:
        return otherwise % partitions
    mixer, mask = 0x5BD1E995, 0xFFFFFFFF
    digest = (0x9747B28C ^ len(key)) & mask
    whole = len(key) // 4 * 4
    for start in range(0, whole, 4):
        word = int.from_bytes(key[start : start + 4], "little") * mixer & mask
        digest = (digest * mixer & mask) ^ ((word ^ word >> 24) * mixer & mask)
    if whole < len(key):
        digest = (digest ^ int.from_bytes(key[whole:], "little")) * mixer & mask
    digest = (digest ^ digest >> 13) * mixer & mask
    return ((digest ^ digest >> 15) & 0x7FFFFFFF) % partitions


def place(case: Case, number: int) -> tuple[str, int]:
    """The topic and partition of a record."""
    record = case.records[number]
    source = case.sources[record.source]
    key = key_bytes(source, record.key)
    return source.topic, partition_of(key, source.partitions, record.time)
