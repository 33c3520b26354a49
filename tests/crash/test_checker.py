"""The checker is checked: each forged history must be flagged, the true one must not."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import duckdb
import fastavro
import pytest

from tests.crash.checker import check

# The file's format is written down a second time here, on purpose.
FORMAT = """
CREATE SCHEMA log;
CREATE TABLE log.topics (id INTEGER, name VARCHAR, partitions INTEGER);
CREATE TABLE log.segments (topic INTEGER, number INTEGER, generation INTEGER);
CREATE TABLE log.positions (grp VARCHAR, topic VARCHAR, part INTEGER, position BIGINT);
"""
Rows = Sequence[tuple[int, str, str | bytes]]
"""(offset, key, value)"""
STEP_MS = 15
"""Between two records."""
NUMBERS = [(i, "k", f'{{"N":{i}}}') for i in range(4)]
COUNTS = [(i, "k", f'{{"C":{i + 1},"S":{i * (i + 1) // 2}}}') for i in range(4)]


def forge(folder: Path, topics: dict[str, Rows], position: int | None = None) -> Path:
    path = folder / "forged.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute(FORMAT)
        for number, (name, rows) in enumerate(topics.items()):
            connection.execute("INSERT INTO log.topics VALUES (?, ?, 1)", [number, name])
            connection.execute("INSERT INTO log.segments VALUES (?, 0, 0)", [number])
            table = f"log.records_{number}_0"
            connection.execute(
                f"CREATE TABLE {table} (part INTEGER, off BIGINT, ts BIGINT, key BLOB, value BLOB)"
            )
            for offset, key, value in rows:
                connection.execute(
                    f"INSERT INTO {table} VALUES (0, ?, ?, ?, ?)",
                    [
                        *(offset, STEP_MS * offset, key.encode()),
                        value if isinstance(value, bytes) else value.encode(),
                    ],
                )
        if position is not None:
            connection.execute(
                "INSERT INTO log.positions VALUES ('copying', 'numbers', 0, ?)", [position]
            )
    return path


def test_a_true_history_passes(tmp_path: Path) -> None:
    path = forge(tmp_path, {"numbers": NUMBERS, "copies": NUMBERS}, 4)
    assert check("log", path, 3, True)[0] == []
    assert check("log", path, 2, False)[0] == []


@pytest.mark.parametrize(
    ("numbers", "copies", "position", "complete", "message"),
    [
        (NUMBERS[:3], NUMBERS[:3], 3, False, "number 3 was acknowledged and is lost"),
        ([*NUMBERS, (4, "k", '{"N":3}')], NUMBERS, 4, False, "number 3 is there 2 times"),
        (NUMBERS[:2] + NUMBERS[3:], [], 0, False, "offset 3 where 2"),
        (NUMBERS, NUMBERS[:3], 4, False, "3 records where 4"),
        (NUMBERS, NUMBERS, 3, False, "4 records where 3"),
        (NUMBERS, [*NUMBERS[:3], (3, "k", '{"N":2}')], 4, False, "difference at 3"),
        (NUMBERS, [(0, *NUMBERS[1][1:]), (1, *NUMBERS[0][1:])], 2, False, "difference at 0"),
        (NUMBERS, NUMBERS[:3], 3, True, "3 records where 4"),
    ],
)
def test_forged_copies_are_flagged(
    tmp_path: Path, numbers: Rows, copies: Rows, position: int, complete: bool, message: str
) -> None:
    path = forge(tmp_path, {"numbers": numbers, "copies": copies}, position)
    problems, _ = check("log", path, 3, complete)
    assert any(message in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("counts", "complete", "message"),
    [
        (COUNTS[:3], True, "ends at 3 of 4"),
        ([*COUNTS, (4, *COUNTS[3][1:])], False, "goes from 4 to 4"),
        ([COUNTS[0], (1, *COUNTS[2][1:]), (2, *COUNTS[1][1:])], False, "goes from 3 to 2"),
        ([*COUNTS, (4, "k", '{"C":5,"S":9}')], False, "count 5 with sum 9"),
        ([(0, "k", '{"C":1,"S":1}')], False, "count 1 with sum 1"),
    ],
)
def test_forged_counts_are_flagged(
    tmp_path: Path, counts: Rows, complete: bool, message: str
) -> None:
    copies = [(i, *NUMBERS[n][1:]) for i, n in enumerate((1, 2))]
    topics = {"numbers": NUMBERS, "copies": copies}
    true = forge(tmp_path, {**topics, "counts": COUNTS})
    assert check("engine", true, 3, True)[0] == []
    true.unlink()
    problems, _ = check("engine", forge(tmp_path, {**topics, "counts": counts}), 3, complete)
    assert any(message in problem for problem in problems), problems


PROTOBUF = 'syntax = "proto3";\nmessage M {{ int64 {} = 1; int64 {} = 2; }}'


def schema_of(kind: str, names: Sequence[str]) -> str:
    """The schema of numbers with these names."""
    if kind == "AVRO":
        fields = [{"name": name, "type": ["null", "long"]} for name in names]
        return json.dumps({"type": "record", "name": "r", "fields": fields})
    return PROTOBUF.format(*names) if kind == "PROTOBUF" else "{}"


def framed(kind: str, number: int, values: dict[str, int]) -> bytes:
    """Values in a format of the registry, behind the id of their schema."""
    before = b"\0" + number.to_bytes(4, "big")
    if kind == "JSON":
        return before + json.dumps(values).encode()
    if kind == "AVRO":
        out = io.BytesIO()
        schema = json.loads(schema_of(kind, tuple(values)))
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), values)
        return before + out.getvalue()
    small = ((tag << 3, value) for tag, value in enumerate(values.values(), 1) if value)
    return before + b"\0" + b"".join(map(bytes, small))


@pytest.mark.parametrize("kind", ["AVRO", "PROTOBUF", "JSON"])
def test_values_whose_schemas_are_in_the_registry(tmp_path: Path, kind: str) -> None:
    names = {1: ("N", "X"), 2: ("C", "S")}
    registry = [
        {"id": number, "schemaType": kind, "schema": schema_of(kind, each)}
        for number, each in names.items()
    ]
    numbers = [(i, "k", framed(kind, 1, {"N": i, "X": 0})) for i in range(4)]
    sums = [i * (i + 1) // 2 for i in range(4)]
    counts = [(i, "k", framed(kind, 2, {"C": i + 1, "S": s})) for i, s in enumerate(sums)]
    topics: dict[str, Rows] = {
        "numbers": numbers,
        "copies": [],
        "a_schemas": [(i, "", json.dumps(each)) for i, each in enumerate(registry)],
    }
    true = forge(tmp_path, {**topics, "counts": counts})
    assert check("backfill", true, 3, False)[0] == []
    true.unlink()
    forged = [*counts[:3], (3, "k", framed(kind, 2, {"C": 4, "S": 7}))]
    problems, _ = check("backfill", forge(tmp_path, {**topics, "counts": forged}), 4, False)
    assert any("count 4 with sum 7" in problem for problem in problems), problems
    assert any("number 4 was acknowledged and is lost" in problem for problem in problems)


COUNTED = [*COUNTS, *((i + 4, "tick-0", f'{{"C":{i + 1},"S":{n}}}') for i, n in enumerate((3, 4)))]
"""Ticks are due at 20 and 40 ms: records at 30 and 45 ms reach them."""


@pytest.mark.parametrize(
    ("counted", "complete", "message"),
    [
        (COUNTED[:5], True, "tick-0 has 1 rows where 2 should be"),
        ([*COUNTED[:3], (3, *COUNTED[4][1:])], True, "k has 3 rows where 4 should be"),
        ([*COUNTED, (6, *COUNTED[0][1:])], False, "k has 5 rows where 4 should be"),
        ([(0, *COUNTED[1][1:])], False, "k has 1 rows where 1 should be, first difference at 0"),
        ([(0, "tick-0", '{"C":1,"S":2}')], False, "tick-0 has 1 rows where 1 should be"),
        ([(0, "tick-1", '{"C":1,"S":1}')], False, "tick-1 has 1 rows where 0 should be"),
    ],
)
def test_forged_rows_of_a_processor_are_flagged(
    tmp_path: Path, counted: Rows, complete: bool, message: str
) -> None:
    copies = [(i, *NUMBERS[n][1:]) for i, n in enumerate((1, 2))]
    topics = {"numbers": NUMBERS, "copies": copies, "counts": COUNTS}
    true = forge(tmp_path, {**topics, "counted": COUNTED})
    assert check("processor", true, 3, True)[0] == []
    true.unlink()
    problems, _ = check("processor", forge(tmp_path, {**topics, "counted": counted}), 3, complete)
    assert any(message in problem for problem in problems), problems
