"""Whether a log file holds what it must; shares no code with the engine.

    python tests/crash/checker.py KIND PATH --acked N [--complete]

Reads a copy of the file (and of its write-ahead log) with SQL of its own. Prints a line for each
violation and a summary; exit status 1 when there is any. Without --complete a sink may lag behind
its input, but may show nothing wrong.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb
import fastavro

KINDS = (
    *("log", "compaction", "engine", "processor", "checkpoints", "topology"),
    *("backfill", "spark", "replace", "pipeline"),
)
TICK_MS = 20
SCHEMA_TOPIC = "schemas"
"""How the name of the topic ends that has the schemas of the registry."""
Record = tuple[str, dict[str, int]]
"""(key, value without case in its names)"""


class Found:
    """The records and positions of one file."""

    def __init__(self, path: Path) -> None:
        self.problems: list[str] = []
        self.topics: dict[str, dict[int, list[Record]]] = {}
        self.positions: dict[str, dict[tuple[str, int], int]] = defaultdict(dict)
        self.times: dict[tuple[str, int], list[int]] = defaultdict(list)
        self.schemas: dict[int, tuple[str, str]] = {}
        self.following: dict[tuple[str, int], int] = {}
        self.compacted: set[str] = set()
        """Topics of which records may be missing."""
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "copy.db"
            shutil.copy(path, copy)
            wal = Path(f"{path}.wal")
            if wal.exists():
                shutil.copy(wal, f"{copy}.wal")
            with duckdb.connect(str(copy)) as connection:
                self._read(connection)

    def _read(self, connection: duckdb.DuckDBPyConnection) -> None:
        topics = connection.execute("SELECT id, name, partitions FROM log.topics").fetchall()
        for topic, name, partitions in sorted(topics, key=_schemas_first):
            self.topics[name] = {partition: [] for partition in range(partitions)}
            tables = connection.execute(
                "SELECT 'log.records_' || topic || '_' || number"
                " || CASE WHEN generation > 0 THEN '_' || generation ELSE '' END, generation"
                " FROM log.segments WHERE topic = ? ORDER BY number",
                [topic],
            ).fetchall()
            for table, generation in tables:
                self.compacted |= {name} if generation else set()
                rows = connection.execute(
                    f"SELECT part, off, key, value, ts FROM {table} ORDER BY off"
                ).fetchall()
                self._add(name, rows)
                if name.endswith(SCHEMA_TOPIC):
                    self._add_schemas(row[3] for row in rows)
        for group, topic, part, position in connection.execute(
            "SELECT grp, topic, part, position FROM log.positions"
        ).fetchall():
            if (topic, part) in self.positions[group]:
                self.problems.append(f"group {group} has two positions on {topic}-{part}")
            self.positions[group][topic, part] = position

    def _add(self, topic: str, rows: list[tuple[int, int, bytes, bytes, int]]) -> None:
        for part, off, key, value, time in rows:
            records = self.topics[topic][part]
            due = self.following.get((topic, part), 0)
            if off < due or (off > due and topic not in self.compacted):
                self.problems.append(f"{topic}-{part}: offset {off} where {due} should be")
            self.following[topic, part] = off + 1
            records.append((_text(key), _value(value, self.schemas)))
            self.times[topic, part].append(time)

    def _add_schemas(self, values: Iterable[bytes | None]) -> None:
        for value in map(json.loads, filter(None, values)):
            if "schema" in value:
                self.schemas[value["id"]] = value["schemaType"], value["schema"]

    def everything(self, topic: str) -> list[tuple[int, list[Record]]]:
        return sorted(self.topics.get(topic, {}).items())


def _text(key: bytes | None) -> str:
    return (key or b"").decode(errors="replace")


def _schemas_first(topic: tuple[int, str, int]) -> bool:
    return not topic[1].endswith(SCHEMA_TOPIC)


def _value(value: bytes | None, schemas: dict[int, tuple[str, str]]) -> dict[str, int]:
    if value and value[0] == 0:
        kind, schema = schemas[int.from_bytes(value[1:5], "big")]
        if kind != "JSON":
            return (_of_avro if kind == "AVRO" else _of_protobuf)(value[5:], schema)
        value = value[5:]
    try:
        return {name.upper(): number for name, number in json.loads(value or b"{}").items()}
    except (ValueError, AttributeError):
        return {}


def _of_avro(content: bytes, schema: str) -> dict[str, int]:
    read = fastavro.schemaless_reader(io.BytesIO(content), json.loads(schema), None)
    assert isinstance(read, dict)
    return {name.upper(): number for name, number in read.items() if number is not None}


def _of_protobuf(content: bytes, schema: str) -> dict[str, int]:
    """The numbers of the first message, which has nothing else; one that is absent is 0."""
    names = {int(number): name.upper() for name, number in re.findall(r"(\w+) = (\d+);", schema)}
    found = dict.fromkeys(names.values(), 0)
    assert content[0] == 0, "it is the first message"
    varints = _varints(content[1:])
    for tag, number in zip(varints, varints, strict=True):
        assert tag & 7 == 0, "it is a number"
        found[names[tag >> 3]] = number - (1 << 64) if number >> 63 else number
    return found


def _varints(content: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in content:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0


def check_input(found: Found, acked: int) -> list[str]:
    """Every number up to the acknowledged one is there; every number there is there once."""
    problems = []
    seen: dict[int, int] = defaultdict(int)
    for partition, records in found.everything("numbers"):
        numbers = [value.get("N", -1) for _, value in records]
        if numbers != sorted(numbers):
            problems.append(f"numbers-{partition}: not in the order of insertion")
        for number in numbers:
            seen[number] += 1
    problems += [
        f"number {n} was acknowledged and is lost" for n in range(acked + 1) if not seen[n]
    ]
    problems += [f"number {n} is there {count} times" for n, count in seen.items() if count > 1]
    return problems


def check_copies(found: Found, group: str | None, divisor: int, complete: bool) -> list[str]:
    """Each partition of `copies` equals its input, up to the group's position (if known)."""
    problems = []
    sources = dict(found.everything("numbers"))
    for partition, copies in found.everything("copies"):
        source = sources.get(partition, [])
        if group is not None and not complete:
            source = source[: found.positions[group].get(("numbers", partition), 0)]
        expected = [record for record in source if divisor == 0 or record[1].get("N", 0) % divisor]
        exact = complete or group is not None
        got = [(key, {"N": value.get("N", -1)}) for key, value in copies]
        if got != (expected if exact else expected[: len(got)]):
            at = next(
                (i for i, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b), -1
            )
            problems.append(
                f"copies-{partition}: {len(got)} records where {len(expected)} should be, first "
                f"difference at {at}"
            )
    return problems


def check_counts(found: Found, complete: bool) -> list[str]:
    """Each change of `counts` is the count and sum of a prefix of its key's rows, never the same
    prefix twice, never an earlier one after a later one."""
    rows: dict[str, list[int]] = defaultdict(list)
    for _, records in found.everything("numbers"):
        for key, value in records:
            rows[key].append(value.get("N", 0))
    reached: dict[str, int] = defaultdict(int)
    problems = []
    for partition, changes in found.everything("counts"):
        for key, value in changes:
            count, total = value.get("C", -1), value.get("S", -1)
            if count <= reached[key]:
                problems.append(f"counts-{partition}: {key} goes from {reached[key]} to {count}")
            if count > len(rows[key]) or total != sum(rows[key][: max(count, 0)]):
                problems.append(f"counts-{partition}: {key} has count {count} with sum {total}")
            reached[key] = count
    if complete:
        problems += [
            f"counts: {key} ends at {reached[key]} of {len(numbers)}"
            for key, numbers in rows.items()
            if reached[key] != len(numbers)
        ]
    return problems


def check_counted(found: Found, complete: bool) -> list[str]:
    """The rows of each key in `counted` are what a processor makes of the rows of one task, or the
    first of them: count and sum after each row, and, each 20 ms of stream time, under a key of the
    task, how often that was so far with the number of its rows."""
    expected: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for partition, records in found.everything("numbers"):
        sums: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        stream = due = ticks = 0
        times = found.times["numbers", partition]
        for number, ((key, value), time) in enumerate(zip(records, times, strict=True)):
            count, total = sums[key]
            sums[key] = count + 1, total + value.get("N", 0)
            expected[key].append(sums[key])
            due = due or time + TICK_MS
            stream = max(stream, time)
            if stream >= due:
                ticks += 1
                due += ((stream - due) // TICK_MS + 1) * TICK_MS
                expected[f"tick-{partition}"].append((ticks, number + 1))
    got: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for _, records in found.everything("counted"):
        for key, value in records:
            got[key].append((value.get("C", -1), value.get("S", -1)))
    problems = []
    for key in sorted(expected.keys() | got.keys()):
        wanted = expected[key] if complete else expected[key][: len(got[key])]
        if got[key] != wanted:
            at = next(
                (i for i, (a, b) in enumerate(zip(got[key], wanted, strict=False)) if a != b), -1
            )
            problems.append(
                f"counted: {key} has {len(got[key])} rows where {len(wanted)} should be, first"
                f" difference at {at}"
            )
    return problems


def check_replaced(found: Found, complete: bool) -> list[str]:
    """Each change of `counts` is the count and sum of a prefix of its key's rows, of all or of the
    even ones; the last changes of all keys are of the same."""
    rows: dict[str, list[int]] = defaultdict(list)
    for _, records in found.everything("numbers"):
        for key, value in records:
            rows[key].append(value.get("N", 0))
    last: dict[str, tuple[int, int]] = dict.fromkeys(rows, (0, 0))
    problems = []
    for partition, changes in found.everything("counts"):
        for key, value in changes:
            last[key] = value.get("C", 0), value.get("S", 0)
            if not any(_fits(rows[key], step, *last[key]) for step in (1, 2)):
                problems.append(f"counts-{partition}: {key} is {last[key]}")
    if not any(all(_fits(rows[key], step, *last[key]) for key in rows) for step in (1, 2)):
        problems.append(f"counts: {last} is of two definitions")
    whole = {key: (len(numbers), sum(numbers)) for key, numbers in rows.items()}
    if complete and last != whole:
        problems.append(f"counts: {last} where {whole} should be")
    return problems


def _fits(numbers: list[int], step: int, count: int, total: int) -> bool:
    """Whether these are count and sum of the first numbers that `step` divides."""
    kept = [number for number in numbers if number % step == 0]
    return 0 <= count <= len(kept) and total == sum(kept[:count])


def check_newest(found: Found, complete: bool) -> list[str]:
    """A partition of `newest` has some of the records of its input, in their order, and the last
    one of each key."""
    problems = []
    sources = dict(found.everything("numbers"))
    for partition, left in found.everything("newest"):
        source = sources.get(partition, [])
        if found.following.get(("newest", partition), 0) != len(source):
            problems.append(f"newest-{partition}: it does not end with its input")
        rest = iter(source)
        if not all(record in rest for record in left):
            problems.append(f"newest-{partition}: records that are not of its input")
        if dict(left) != dict(source):
            problems.append(f"newest-{partition}: the last record of a key is lost")
        if complete and len(source) > 2000 and len(left) > len(source) // 2:
            problems.append(f"newest-{partition}: {len(left)} of {len(source)} are left")
    return problems


def check(kind: str, path: Path, acked: int, complete: bool) -> tuple[list[str], str]:
    """The violations in a file, and a summary of the checks."""
    found = Found(path)
    problems = [*found.problems, *check_input(found, acked)]
    if kind == "log":
        problems += check_copies(found, "copying", 0, complete)
    elif kind == "compaction":
        problems += check_newest(found, complete)
    elif kind == "replace":
        problems += check_replaced(found, complete)
    else:
        problems += check_copies(found, None, 3, complete)
        problems += check_counts(found, complete)
        if kind in ("processor", "checkpoints", "topology"):
            problems += check_counted(found, complete)
    sizes = {
        name: sum(len(records) for records in partitions.values())
        for name, partitions in sorted(found.topics.items())
    }
    return problems, json.dumps(sizes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("path", type=Path)
    parser.add_argument("--acked", type=int, default=-1)
    parser.add_argument("--complete", action="store_true")
    given = parser.parse_args()
    problems, summary = check(given.kind, given.path, given.acked, given.complete)
    for problem in problems[:50]:
        sys.stdout.write(f"VIOLATION {problem}\n")
    sys.stdout.write(summary + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
