"""`Database.insert` writes the records that INSERT INTO … VALUES writes for the same rows one by
one, and refuses the same rows."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import millstream
from millstream import Database, MillstreamError

SCALARS = {
    "T": "BOOLEAN",
    "I": "INT",
    "B": "BIGINT",
    "D": "DOUBLE",
    "M": "DECIMAL(7, 2)",
    "F": "DECIMAL(2, 2)",
    "S": "STRING",
    "R": "BYTES",
    "DT": "DATE",
    "TM": "TIME",
    "TS": "TIMESTAMP",
}
NESTED = {
    "AI": "ARRAY<INT>",
    "AT_": "ARRAY<BOOLEAN>",
    "AS_": "ARRAY<STRING>",
    "AA": "ARRAY<ARRAY<BIGINT>>",
    "MI": "MAP<STRING, INT>",
    "ST": "STRUCT<X INT, Y STRING, Z ARRAY<DOUBLE>>",
}
SOURCES = {
    "json": ("KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON'", "INT", SCALARS | NESTED),
    "keyed": ("KEY_FORMAT='JSON', VALUE_FORMAT='JSON'", "STRING", {"I": "INT"}),
    "delimited": ("FORMAT='DELIMITED'", "BIGINT", SCALARS),
    "kafka": ("FORMAT='KAFKA'", "STRING", {"D": "DOUBLE"}),
    "msgpack": ("KEY_FORMAT='KAFKA', VALUE_FORMAT='MSGPACK'", "INT", SCALARS | NESTED),
    "protobuf": ("KEY_FORMAT='KAFKA', VALUE_FORMAT='PROTOBUF_NOSR'", "BIGINT", SCALARS | NESTED),
}
PARTITIONS = 3
numbers = count()

WHOLE = st.sampled_from([0, 1, -7, 2**31 - 1, 2**31, -(2**63), 99999, 2**53 + 1])
TEXTS = st.sampled_from(
    [
        "",
        "7",
        " 12 ",
        "1.5",
        "1.555",
        "-0.004",
        "yes",
        "F",
        "2020-01-02",
        "10:11",
        "x!",
        "aGk=",
        "é'",
    ]
)
FRACTIONS = st.sampled_from([0.0, -0.0, 1.5, 1e20, -3e-7, 12.0])
EXACT = st.sampled_from(
    [Decimal(each) for each in ("0", "0.5", "1.50", "-12.345", "1E+3", "99999")]
)
TIMES = (
    st.sampled_from([datetime.date(2020, 2, 29), datetime.date(1960, 1, 1)]),
    st.sampled_from([datetime.time(1, 2, 3, 4567), datetime.time(23, 59)]),
    st.sampled_from(
        [
            datetime.datetime(2020, 1, 2, 3, 4, 5, 678912),
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
            datetime.datetime(2021, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=5))),
        ]
    ),
)
PLAIN = st.one_of(WHOLE, TEXTS, FRACTIONS, EXACT, *TIMES, st.booleans())


def lists(of: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """SQL has no empty array, and none of NULLs alone."""
    return st.builds(lambda head, tail: [head, *tail], of, st.lists(of | st.none(), max_size=2))


SMALL = st.sampled_from([0, 1, -7])
FITTING: dict[str, st.SearchStrategy[Any]] = {
    "T": st.booleans(),
    "I": SMALL | st.just("7"),
    "B": WHOLE,
    "D": FRACTIONS | WHOLE,
    "M": st.sampled_from([Decimal("1.50"), Decimal("0.5"), 7, "1.555"]),
    "F": st.sampled_from([0, ".5"]),
    "S": TEXTS | WHOLE | FRACTIONS | EXACT | st.booleans(),
    "R": st.just("aGk="),
    "DT": st.sampled_from([datetime.date(2020, 2, 29), "2020-01-02"]),
    "TM": st.sampled_from([datetime.time(1, 2, 3, 4567), "10:11"]),
    "TS": st.sampled_from([datetime.datetime(2020, 1, 2, 3, 4, 5, 678912), "2020-01-02"]),
    "AI": lists(SMALL) | lists(st.just("7")),
    "AT_": lists(st.booleans()) | lists(st.sampled_from(["yes", "true", "nope"])),
    "AS_": lists(TEXTS) | lists(WHOLE) | lists(FRACTIONS) | lists(st.booleans()),
    "AA": lists(lists(SMALL)),
    "MI": st.dictionaries(TEXTS, SMALL, min_size=1, max_size=2),
    "ST": st.fixed_dictionaries(
        {"X": SMALL}, optional={"Y": TEXTS | WHOLE, "Z": lists(FRACTIONS), "OTHER": SMALL}
    ),
}
NEVER = st.one_of(*map(lists, (WHOLE, TEXTS, FRACTIONS, *TIMES, st.booleans())), PLAIN)
"""The elements of an array of SQL have one type, which is not asked of lists: those of an
ARRAY<STRING> become texts one by one."""


@st.composite
def rows_of(draw: st.DrawFn, source: str) -> list[dict[str, Any]]:
    """Rows, most of which fit."""
    _, key, columns = SOURCES[source]
    keys = SMALL if key != "STRING" else TEXTS
    rows = []
    for _ in range(draw(st.integers(1, 6))):
        row = {"K": draw(keys | st.none()), "ROWTIME": draw(st.sampled_from([0, 5, 10**12]))}
        names = draw(st.lists(st.sampled_from(list(columns)), unique=True, max_size=5))
        odd = draw(st.integers(0, 3)) == 0
        for name in names:
            of = PLAIN if name in SCALARS else NEVER
            row[name] = draw((of if odd else FITTING[name]) | st.none())
        rows.append(row)
    return rows


def literal(value: Any) -> str:
    """A value as SQL; each part has its own type."""
    match value:
        case None:
            return "NULL"
        case bool() | int():
            return str(value)
        case float():
            text = repr(value)
            return text if "e" in text else f"{text}E0"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case list():
            return f"ARRAY[{', '.join(map(literal, value))}]"
        case datetime.datetime():
            universal = value.astimezone(datetime.UTC) if value.tzinfo else value
            text = universal.replace(tzinfo=None).isoformat(timespec="milliseconds")
            return f"CAST('{text}' AS TIMESTAMP)"
        case datetime.date():
            return f"CAST('{value.isoformat()}' AS DATE)"
        case datetime.time():
            return f"CAST('{value.isoformat(timespec='milliseconds')}' AS TIME)"
    raise AssertionError(value)


def expression(name: str, value: Any) -> tuple[str, tuple[Any, ...]]:
    """The SQL of a column's value, and its parameter."""
    match value:
        case dict() if name == "MI":
            pairs = (f"{literal(key)} := {literal(item)}" for key, item in value.items())
            return f"MAP({', '.join(pairs)})", ()
        case dict():
            pairs = (f"{key} := {literal(item)}" for key, item in value.items())
            return f"STRUCT({', '.join(pairs)})", ()
        case list():
            return literal(value), ()
        case _:
            return "?", (value,)


def insert_statement(source: str, row: dict[str, Any]) -> tuple[str, tuple[Any, ...]]:
    parts = [expression(name, value) for name, value in row.items()]
    values = ", ".join(text for text, _ in parts)
    parameters = tuple(value for _, given in parts for value in given)
    return f"INSERT INTO {source} ({', '.join(row)}) VALUES ({values});", parameters


def records(db: Database, source: str, start: dict[int, int]) -> list[Any]:
    """Key, value and timestamp of the new records of each partition; moves `start` behind them."""
    found = []
    for partition in range(PARTITIONS):
        batch = db.engine.log.read(source, partition, start.get(partition, 0), 1000).batch
        rows = batch.select(["timestamp", "key", "value"]).to_pylist()
        start[partition] = start.get(partition, 0) + len(rows)
        found += [(*row.values(), None if row["key"] is None else partition) for row in rows]
    # Records without a key are spread over the partitions, in no order that is promised.
    return sorted(found, key=repr)


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with millstream.connect() as database:
        yield database


def create(db: Database, source: str) -> tuple[str, str]:
    """A pair of equal streams."""
    made = f"{source}{next(numbers)}"
    formats, key, columns = SOURCES[source]
    listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    for name in (f"{made}a", f"{made}b"):
        db.execute(
            f"CREATE STREAM {name} (K {key} KEY, {listed}) "
            f"WITH (KAFKA_TOPIC='{name}', PARTITIONS={PARTITIONS}, {formats});"
        )
    return f"{made}a", f"{made}b"


@pytest.mark.parametrize("source", SOURCES)
def test_rows_become_the_same_records_as_by_statements(db: Database, source: str) -> None:
    one, other = create(db, source)
    ends: tuple[dict[int, int], dict[int, int]] = ({}, {})
    seen = {"fitting": 0, "refused": 0}

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(rows_of(source))
    def check(rows: list[dict[str, Any]]) -> None:
        inserted = 0
        try:
            for row in rows:
                db.execute(*insert_statement(one, row))
                inserted += 1
        except MillstreamError as refusal:
            seen["refused"] += 1
            with pytest.raises(MillstreamError) as caught:
                db.insert(other, rows)
            assert f"ow {inserted + 1} " in str(caught.value), str(refusal)
            assert records(db, other, ends[1]) == [], "nothing of the data is inserted"
        fitting = rows[:inserted]
        assert db.insert(other, fitting) == inserted
        seen["fitting"] += inserted
        assert records(db, other, ends[1]) == records(db, one, ends[0])

    check()
    assert seen["fitting"] > 40 and (seen["refused"] or source in ("keyed", "kafka"))
