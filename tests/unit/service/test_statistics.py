"""Sums, means, variances and correlations of DOUBLE, to the last bit.

Rules (reference: functions, section 9; RUNNER 11.4): rows are processed one by one, in order, and a
row that leaves a table is removed before the new one is added. NULL is skipped. AVG is sum by
count. STDDEV_SAMP is the sample variance, whose squared deviations are updated with each value as
by Youngs and Cramer (1971): (v * n - s)^2 / (n * (n - 1)), n and s with the value. To remove a
value, ksqlDB's StandardDeviationSampUdaf computes v * (n + 1) - (s + v) instead, n and s still with
the value. STDDEV_SAMPLE is its root. CORRELATION is, by ksqlDB's CorrelationUdaf, (n Sxy - Sx Sy) /
sqrt((n Sxx - Sx Sx) * (n Syy - Sy Sy)). The order of these operations decides the last digit, so
the models below do the same on Python's floats.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest

import millstream
from millstream import Database
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from tests.draws import draws

Value = float | None
Change = tuple[int, str, Value, Value]
"""+1 or -1, group, x, y."""
CALLS = (
    "SUM(x) AS a, AVG(x) AS b, STDDEV_SAMP(x) AS c, STDDEV_SAMPLE(x) AS d, CORRELATION(x, y) AS e"
)


@dataclass
class Model:
    """One group, row by row."""

    n: int = 0
    s: float = 0.0
    m2: float = 0.0
    pairs: int = 0
    sx: float = 0.0
    sy: float = 0.0
    sxx: float = 0.0
    syy: float = 0.0
    sxy: float = 0.0

    def change(self, sign: int, x: Value, y: Value) -> None:
        if x is not None:
            if sign > 0:
                self.n, self.s = self.n + 1, self.s + x
                self.m2 += self.term(x * self.n - self.s)
            else:
                self.m2 -= self.term(x * (self.n + 1) - (self.s + x))
                self.n, self.s = self.n - 1, self.s - x
        if x is not None and y is not None:
            self.pairs += sign
            self.sx += sign * x
            self.sy += sign * y
            self.sxx += sign * (x * x)
            self.syy += sign * (y * y)
            self.sxy += sign * (x * y)

    def term(self, apart: float) -> float:
        return 0.0 if self.n < 2 else apart * apart / (self.n * (self.n - 1))

    def values(self) -> tuple[float, ...]:
        mean = self.s / self.n if self.n else 0.0
        variance = self.m2 / (self.n - 1) if self.n > 1 else 0.0
        root = math.sqrt(variance) if variance >= 0 else math.nan
        return (self.s, mean, variance, root, self.correlation())

    def correlation(self) -> float:
        n = self.pairs
        a = n * self.sxx - self.sx * self.sx
        b = n * self.syy - self.sy * self.sy
        if n < 2 or a * b <= 0:
            return math.nan
        return (n * self.sxy - self.sx * self.sy) / math.sqrt(a * b)


def a_value(random: Random) -> Value:
    if random.random() < 0.1:
        return None
    return random.choice(
        (
            round(random.uniform(-100, 100), 2),
            random.uniform(-1, 1),
            random.gauss(0, 1) * 10.0 ** random.randint(-3, 6),
            float(random.randint(-9, 9)),
        )
    )


def some(random: Random, count: int) -> list[tuple[str, Value, Value]]:
    return [(random.choice("ab"), a_value(random), a_value(random)) for _ in range(count)]


def bits(row: Sequence[object]) -> tuple[object, ...]:
    return tuple("NaN" if isinstance(v, float) and math.isnan(v) else repr(v) for v in row)


def send(db: Database, random: Random, records: Sequence[tuple[str, object]]) -> None:
    """Appends records in pieces of any size, each processed before the next one."""
    begin = 0
    while begin < len(records):
        end = begin + random.choice((1, 2, 5, 40))
        piece = [
            (key.encode(), json.dumps(value).encode() if value is not None else None, 10 + place)
            for place, (key, value) in enumerate(records[begin:end], begin)
        ]
        db.engine.log.writer("test").append([Appended("s", 0, raw_batch(piece), len(piece), 10)])
        db.wait()
        begin = end


def database(kind: str) -> Database:
    db = millstream.connect(properties={"auto.offset.reset": "earliest"})
    key = "PRIMARY KEY" if kind == "TABLE" else "KEY"
    db.execute(
        f"CREATE {kind} s (k STRING {key}, g STRING, x DOUBLE, y DOUBLE)"
        " WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"
        f"CREATE TABLE o AS SELECT g, {CALLS} FROM s GROUP BY g;"
    )
    return db


def written(db: Database) -> list[tuple[str, tuple[object, ...]]]:
    """Every row of the sink, as it was written."""
    fetched = db.engine.log.read("O", 0, 0, 10_000)
    return [
        (key.decode(), bits([float(v) for v in json.loads(value).values()]))
        for key, value in zip(
            fetched.batch["key"].to_pylist(), fetched.batch["value"].to_pylist(), strict=True
        )
    ]


@pytest.mark.parametrize("seed", range(draws(6)))
def test_a_stream_live_and_over_history(seed: int) -> None:
    random = Random(seed)
    rows = some(random, 120)
    models: dict[str, Model] = defaultdict(Model)
    expected = []
    for group, x, y in rows:
        models[group].change(1, x, y)
        expected.append((group, bits(models[group].values())))
    with database("STREAM") as db:
        send(db, random, [("k", {"g": g, "x": x, "y": y}) for g, x, y in rows])
        assert written(db) == expected
        last = {group: bits(model.values()) for group, model in models.items()}
        assert answers(db, "SELECT * FROM o;") == last
        assert (
            answers(db, f"SELECT g, {CALLS} FROM s BETWEEN OFFSETS 0 AND 999 GROUP BY g;") == last
        )


def answers(db: Database, query: str) -> dict[str, tuple[object, ...]]:
    return {row[0]: bits(row[1:]) for row in (tuple(row) for row in db.execute(query))}


@pytest.mark.parametrize("seed", range(draws(6)))
def test_a_table_whose_rows_change(seed: int) -> None:
    """Values leave in another order than they arrived; a deletion removes and adds nothing."""
    random = Random(100 + seed)
    held: dict[str, tuple[str, Value, Value]] = {}
    models: dict[str, Model] = defaultdict(Model)
    records: list[tuple[str, object]] = []
    expected: list[tuple[str, tuple[object, ...]]] = []
    for group, x, y in some(random, 120):
        key = random.choice("uvwz")
        gone = random.random() < 0.15
        records.append((key, None if gone else {"g": group, "x": x, "y": y}))
        old, new = held.pop(key, None), None if gone else (group, x, y)
        if old is not None:
            models[old[0]].change(-1, *old[1:])
            if new is None or new[0] != old[0]:
                expected.append((old[0], bits(models[old[0]].values())))
        if new is not None:
            held[key] = new
            models[group].change(1, x, y)
            expected.append((group, bits(models[group].values())))
    with database("TABLE") as db:
        send(db, random, records)
        assert written(db) == expected
