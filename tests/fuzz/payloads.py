"""Mutated payloads for each format: bytes changed, cut out, doubled, or replaced by huge lengths.

Each batch has untouched payloads between the mutated ones. All untouched rows must be read as they
were written, and each of the others must be a value or a reason; no exception, no hang, and no more
memory than a batch needs.
"""

from __future__ import annotations

import argparse
import datetime
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from millstream.catalog.formats import CAPABILITIES
from millstream.formats.codec import read_payload, write_payload
from millstream.formats.payload import Layout, Subject
from millstream.log.embedded import EmbeddedLog
from millstream.model.physical import arrow_type
from millstream.model.schema import Column, Role
from millstream.model.schema_text import SchemaText
from millstream.model.types import SqlType
from millstream.schemas.embedded import EmbeddedRegistry
from tests.unit.formats.columns import COLUMNS

BATCH = 2_000
UNTOUCHED = 5
"""Each of so many rows is not mutated."""
BATCH_SECONDS = 20.0
MEMORY_MAX = 2 << 30
HUGE = (b"\xff" * 9 + b"\x01", b"\xfe\xff\xff\xff\x0f", b"\x80" * 40, b"\x7f\xff\xff\xff")
"""Lengths far beyond any payload: as varints, and in four bytes."""
NESTED = (b"[" * 3_000, b"{" * 3_000, b'{"a":' * 2_000, b"\x93" * 500, b"\x81\xa1a" * 500)


@dataclass(frozen=True)
class Fuzzed:
    """A format, and payloads of it with what is in them."""

    name: str
    layout: Layout
    payloads: Sequence[bytes]
    columns: Sequence[pa.Array]


class OneSchema(EmbeddedRegistry):
    """A registry in which every id has the same schema: a payload with a changed one is read."""

    def by_id(self, schema_id: int) -> SchemaText:
        """The first schema."""
        return super().by_id(1)


def values(columns: Sequence[tuple[str, SqlType]], random: np.random.Generator) -> list[pa.Array]:
    """Columns of random rows."""
    epoch = datetime.datetime(1970, 1, 1)

    def text() -> str:
        return "".join(random.choice(list('ab"{}\\,é日'), size=int(random.integers(0, 6))))

    def row() -> dict[str, Any]:
        number = int(random.integers(-(2**31), 2**31))
        day = epoch + datetime.timedelta(seconds=abs(number))
        return {
            "B": bool(number % 2),
            "I": number,
            "L": number * 2**31,
            "D": float(number) / 7,
            "N": Decimal(number % 10_000) / 100,
            "S": text(),
            "Y": random.bytes(int(random.integers(0, 9))),
            "DAY": day.date(),
            "T": datetime.time(number % 24, number % 60),
            "AT_": day,
            "A": [text() for _ in range(number % 4)],
            "M": [(text(), number)],
            "R": {"X": number, "IN": {"Z": [1.5] * (number % 3)}},
        }

    rows = [row() for _ in range(200)]
    return [pa.array([each[name] for each in rows], arrow_type(kind)) for name, kind in columns]


def fuzzed(name: str, con: duckdb.DuckDBPyConnection, random: np.random.Generator) -> Fuzzed:
    """A format with the columns that it can have."""
    able = CAPABILITIES[name]
    chosen = [
        column
        for column in COLUMNS
        if str(column[1]).partition("<")[0].partition("(")[0] in able.types
    ]
    # Of the formats with one column, an INTEGER.
    chosen = chosen if able.many_columns else chosen[:1]
    registry = OneSchema(EmbeddedLog.open(":memory:"), "schemas", lambda: 0)
    layout = Layout(
        tuple(Column(column, kind, Role.VALUE) for column, kind in chosen),
        tuple(range(len(chosen))),
        subject=Subject(registry, "fuzzed-value", "FUZZED", is_key=False),
    )
    columns = values(chosen, random)
    payloads = write_payload(con, columns, layout, name, len(columns[0])).payload.to_pylist()
    read = read_payload(con, pa.array(payloads, pa.binary()), layout, name)
    return Fuzzed(name, layout, payloads, read.columns)


def mutated(payload: bytes, random: np.random.Generator) -> bytes:
    """The payload with one to three mistakes."""
    found = bytearray(payload)
    for _ in range(int(random.integers(1, 4))):
        at = int(random.integers(0, len(found) + 1))
        end = min(len(found), at + int(random.integers(1, 9)))
        match int(random.integers(0, 7)):
            case 0 | 1 if at < len(found):
                found[at] = int(random.integers(0, 256))
            case 2:
                del found[at:end]
            case 3:
                del found[at:]
            case 4:
                found[at:at] = found[at:end]
            case 5:
                found[at:end] = HUGE[int(random.integers(0, len(HUGE)))]
            case _ if random.integers(0, 50) == 0:
                found[at:at] = NESTED[int(random.integers(0, len(NESTED)))]
            case _:
                found[at:at] = random.bytes(3)
    return bytes(found)


def check(form: Fuzzed, con: duckdb.DuckDBPyConnection, random: np.random.Generator) -> int:
    """Read one batch; returns the number of mutated payloads. Raises AssertionError."""
    picked = random.integers(0, len(form.payloads), BATCH)
    batch = [
        form.payloads[row] if place % UNTOUCHED == 0 else mutated(form.payloads[row], random)
        for place, row in enumerate(picked)
    ]
    began = time.process_time()
    read = read_payload(con, pa.array(batch, pa.binary()), form.layout, form.name)
    took = time.process_time() - began
    assert took < BATCH_SECONDS, f"a batch took {took:.0f} s"
    assert all(len(column) == BATCH for column in read.columns)
    assert all(read.bad.values()), "a reason is empty"
    whole = np.arange(0, BATCH, UNTOUCHED)
    wrong = [read.bad[row] for row in whole.tolist() if row in read.bad]
    assert not wrong, f"an untouched row is bad: {wrong[0]}"
    for column, expected in zip(read.columns, form.columns, strict=True):
        assert column.take(pa.array(whole)).equals(expected.take(pa.array(picked[whole])))
    good = [row for row in range(BATCH) if row not in read.bad]
    rows = pa.table({f"c{n}": column.take(pa.array(good)) for n, column in enumerate(read.columns)})
    # What is read has to be a value to those who process it.
    con.from_arrow(rows).aggregate("count(*), count(hash(COLUMNS(*)))").fetchall()
    return BATCH - len(whole)


def _most_memory() -> int:
    """The most bytes that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main(arguments: list[str] | None = None) -> int:
    """Fuzz the formats; 1 when one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--payloads", type=int, default=20_000, help="of each format")
    parser.add_argument("--formats", default=",".join(sorted(CAPABILITIES.keys() - {"NONE"})))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    failed = False
    for name in options.formats.split(","):
        random, con = np.random.default_rng(options.seed), duckdb.connect()
        began, done, bad = time.process_time(), 0, ""
        # The process may have had more than is allowed here before, for something else.
        before = _most_memory()
        try:
            form = fuzzed(name, con, random)
            while done < options.payloads:
                done += check(form, con, random)
        except Exception as error:
            failed, bad = True, f"  FAILED: {type(error).__name__}: {error}"
        most = _most_memory()
        if most > max(MEMORY_MAX, before):
            failed, bad = True, f"{bad}  FAILED: {most >> 20} MB of memory"
        took = time.process_time() - began
        print(
            f"{name:14} {done:>10,} payloads  {took:7.1f} CPU s  {most >> 20:5} MB{bad}", flush=True
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
