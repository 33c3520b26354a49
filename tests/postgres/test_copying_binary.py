"""COPY in the binary format: what its bytes mean, values of every type, asyncpg and psycopg."""

from __future__ import annotations

import asyncio
import datetime
import io
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import asyncpg
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.model import types as t
from millstream_server.postgres import copying
from millstream_server.postgres.copied_binary import HEADER, TRAILER, binary_pieces
from millstream_server.postgres.copied_values import converted
from millstream_server.postgres.messages import row_body
from millstream_server.postgres.refusals import PgError
from millstream_server.postgres.values import encoder
from tests.postgres.conftest import Shop

WITH_EXTENSION = HEADER[:-4] + struct.pack("!i", 3) + b"new"
ROW = b"\x00\x02" + b"\x00\x00\x00\x01a" + b"\xff\xff\xff\xff"


def columns_of(data: bytes, count: int) -> list[list[Any]]:
    """The fields of all rows by column."""
    columns: list[list[Any]] = [[] for _ in range(count)]
    for piece in binary_pieces(data, count):
        for column, more in zip(columns, piece, strict=True):
            column += more
    return columns


@given(st.lists(st.lists(st.one_of(st.none(), st.binary()), min_size=3, max_size=3), max_size=6))
def test_what_is_written_is_read(rows: list[list[bytes | None]]) -> None:
    data = HEADER + b"".join(map(row_body, rows)) + TRAILER
    assert [list(row) for row in zip(*columns_of(data, 3), strict=True)] == rows


@pytest.mark.parametrize("begin", [HEADER, WITH_EXTENSION])
@pytest.mark.parametrize("end", [TRAILER, b""])
def test_the_bytes_of_a_copy(begin: bytes, end: bytes) -> None:
    """The trailer may be missing, as PostgreSQL allows."""
    assert columns_of(begin + end, 2) == [[], []]
    assert columns_of(begin + ROW + ROW + end, 2) == [[b"a", b"a"], [None, None]]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "first bytes"),
        (b"1\tann\n", "first bytes"),
        (HEADER[:-1], "within its header"),
        (HEADER[:-4] + struct.pack("!i", 9) + b"short", "header is longer"),
        (HEADER[:-4] + struct.pack("!i", -1), "header is longer"),
        (HEADER[:11] + struct.pack("!ii", 1 << 16, 0), "OIDs"),
        (HEADER + ROW[:1], "within row 1"),
        (HEADER + ROW + ROW[:5], "within row 2"),
        (HEADER + ROW[:-4], "within row 1"),
        (HEADER + b"\x00\x02\x00\x00\x00\x09a", "field of 9 bytes"),
        (HEADER + b"\x00\x02\xff\xff\xff\xfe", "field of -2 bytes"),
        (HEADER + ROW + TRAILER + ROW, "behind its end"),
        (HEADER + b"\x00\x03" + ROW[2:], "Row 1 of COPY has 3 columns instead of 2"),
        (HEADER + b"\xff\xfe" + ROW[2:], "Row 1 of COPY has -2 columns instead of 2"),
    ],
)
def test_bytes_that_are_no_copy(data: bytes, told: str) -> None:
    with pytest.raises(PgError) as refused:
        columns_of(data, 2)
    assert told in f"{refused.value.message} {refused.value.detail}"


@given(st.binary(max_size=100), st.booleans(), st.integers(1, 3))
def test_any_bytes_are_rows_or_an_error(data: bytes, begun: bool, count: int) -> None:
    try:
        columns = columns_of(HEADER + data if begun else data, count)
    except PgError as error:
        assert error.code in ("22P04", "0A000")
    else:
        assert len({len(column) for column in columns}) == 1


TIMES = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))
VALUES: dict[t.SqlType, st.SearchStrategy[Any]] = {
    t.BIGINT: st.integers(-(2**63), 2**63 - 1),
    t.INTEGER: st.integers(-(2**31), 2**31 - 1),
    t.DOUBLE: st.floats(allow_nan=False),
    t.BOOLEAN: st.booleans(),
    t.STRING: st.text(st.characters(exclude_characters="\0", codec="utf-8")),
    t.BYTES: st.binary(),
    t.Decimal(12, 3): st.decimals(-(10**8), 10**8, places=3),
    t.TIME: st.times(),
}


@given(st.sampled_from(list(VALUES)).flatmap(lambda k: st.tuples(st.just(k), VALUES[k])))
def test_values_come_back(drawn: tuple[t.SqlType, Any]) -> None:
    kind, value = drawn
    assert converted([encoder(kind, 1)(value), None], kind, "c", binary=True) == [value, None]
    array, some = t.Array(kind), [value, None, value]
    assert converted([encoder(array, 1)(some)], array, "c", binary=True) == [some]


@given(TIMES)
def test_days_and_moments_come_back(moment: datetime.datetime) -> None:
    since = moment - datetime.datetime(1970, 1, 1)
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    packed = encoder(t.TIMESTAMP, 1)(micros)
    assert converted([packed], t.TIMESTAMP, "c", binary=True) == [moment]
    packed = encoder(t.DATE, 1)(since.days)
    assert converted([packed], t.DATE, "c", binary=True) == [moment.date()]


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (t.INTEGER, b"\x00\x01"), (t.INTEGER, bytes(8)), (t.BIGINT, b""), (t.BOOLEAN, b""),
        (t.STRING, b"\xff"), (t.DATE, b"\x7f\xff\xff\xff"), (t.DATE, b"\x80\x00\x00\x00"),
        (t.TIME, b"\xff" * 8), (t.TIMESTAMP, b"\x7f" + b"\xff" * 7), (t.Decimal(4, 1), b"1.5"),
        (t.Decimal(4, 1), struct.pack("!hhHh", 0, 0, 0xC000, 0)),
        (t.Map(t.STRING, t.INTEGER), b"{a:1}"),
        (t.Array(t.INTEGER), b""), (t.Array(t.INTEGER), struct.pack("!iii", 0, 0, 25)),
        (t.Array(t.INTEGER), struct.pack("!iiiiiii", 2, 0, 23, 0, 1, 0, 1)),
        (t.Array(t.INTEGER), struct.pack("!iiiii", 1, 0, 23, 2**31 - 1, 1)),
        (t.Array(t.INTEGER), struct.pack("!iiiiii", 1, 0, 23, 1, 1, 4)),
        (t.Array(t.INTEGER), struct.pack("!iiii", 0, 0, 23, 0)),
    ],
)  # fmt: skip
def test_values_of_another_type(kind: t.SqlType, raw: bytes) -> None:
    with pytest.raises(PgError, match=r"Row 2 of COPY: c is no") as refused:
        converted([None, raw], kind, "c", binary=True)
    assert refused.value.code == "22P02"


@given(st.binary(max_size=60), st.sampled_from([*VALUES, t.DATE, t.Array(t.STRING)]))
def test_any_bytes_are_a_value_or_an_error(raw: bytes, kind: t.SqlType) -> None:
    try:
        assert len(converted([raw], kind, "c", binary=True)) == 1
    except PgError as error:
        assert error.code == "22P02"


# ---- clients -------------------------------------------------------------------------------------

PERSON: tuple[Any, ...] = (
    501, "Cleo", ["a", None], Decimal("2.25"), datetime.datetime(2025, 6, 1, 2, 3, 4),
    datetime.date(1999, 12, 31), datetime.time(1, 2, 3), b"\x00\xff", 0.5, False, -7,
)  # fmt: skip
NAMES = ("id", "name", "tags", "paid", "seen", "born", "up", "raw", "height", "ok", "n")


def test_records_of_asyncpg(shop: Shop) -> None:
    """It asks for the types of the columns with a query, which no table has to answer whose rows no
    query keeps."""
    shop.feed(
        "CREATE STREAM persons (id BIGINT KEY, name STRING, tags ARRAY<STRING>, paid"
        " DECIMAL(10, 2), seen TIMESTAMP, born DATE, up TIME, raw BYTES, height DOUBLE,"
        " ok BOOLEAN, n INT)"
        " WITH (kafka_topic='persons', value_format='JSON', partitions=1);"
    )

    async def talk() -> tuple[str, Any, bytes]:
        at = await asyncpg.connect(
            host="127.0.0.1", port=shop.door.postgres, user="bob", database="shop"
        )
        told = await at.copy_records_to_table("persons", records=[PERSON], columns=NAMES)
        shop.engine.drain()
        found = await at.fetchrow(f"SELECT {', '.join(NAMES)} FROM persons WHERE id = 501")
        written = io.BytesIO()
        await at.copy_from_query(
            "SELECT id, name FROM persons WHERE id = 501", output=written, format="binary"
        )
        await at.close()
        return told, tuple(found), written.getvalue()

    told, found, written = asyncio.run(talk())
    assert told == "COPY 1"
    assert found == PERSON
    fields = (struct.pack("!q", 501), b"Cleo")
    assert written == HEADER + row_body(fields) + TRAILER


def test_rows_of_psycopg(shop: Shop) -> None:
    with shop.connect() as connection, connection.cursor() as at:
        with at.copy("COPY orders (id, person, amount) FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int8", "int8", "float8"])
            for number in range(7000, 7050):
                copy.write_row((number, None if number % 2 else 1, number / 4))
        assert at.rowcount == 50
        query = "SELECT id, person, amount FROM orders WHERE id >= 7000 AND id < 7050"
        with at.copy(f"COPY ({query}) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["int8", "int8", "float8"])
            rows: Sequence[Any] = list(copy.rows())
        with at.copy("COPY (SELECT id FROM orders WHERE id = -1) TO STDOUT BINARY") as copy:
            copy.set_types(["int8"])
            assert list(copy.rows()) == []
    assert sorted(rows) == [(n, None if n % 2 else 1, n / 4) for n in range(7000, 7050)]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"7100\t1\n", psycopg.errors.BadCopyFileFormat),
        (HEADER + row_body((bytes(8), bytes(8)))[:-1], psycopg.errors.BadCopyFileFormat),
        (HEADER + row_body((bytes(8),)), psycopg.errors.BadCopyFileFormat),
        (
            HEADER + row_body((struct.pack("!q", 7100), bytes(8))) + row_body((b"1", bytes(8))),
            psycopg.errors.InvalidTextRepresentation,
        ),
    ],
)
def test_a_copy_inserts_all_rows_or_none(
    shop: Shop, data: bytes, error: type[psycopg.Error]
) -> None:
    with shop.connect() as connection, connection.cursor() as at:
        with pytest.raises(error), at.copy("COPY orders (id, amount) FROM STDIN BINARY") as copy:
            copy.write(data)
        assert at.execute("SELECT COUNT(*) FROM orders WHERE id = 7100").fetchone() == (0,)


def test_many_pieces_are_one_insert(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "PIECE_ROWS", 7)
    rows = [(struct.pack("!q", number), bytes(8)) for number in range(7200, 7250)]
    with shop.connect() as connection, connection.cursor() as at:
        with at.copy("COPY orders (id, amount) FROM STDIN BINARY") as copy:
            copy.write(HEADER + b"".join(map(row_body, rows)))
        found = at.execute("SELECT id, rowtime FROM orders WHERE id >= 7200").fetchall()
    mine = [(number, time) for number, time in found if number < 7250]
    assert len(mine) == 50 and len({time for _, time in mine}) == 1


def test_more_rows_than_are_held(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "ROWS_MAX", 3)
    rows = row_body((struct.pack("!q", 7300), bytes(8))) * 4
    with (
        shop.connect() as connection,
        connection.cursor() as at,
        pytest.raises(psycopg.Error, match="at most 3 rows"),
        at.copy("COPY orders (id, amount) FROM STDIN BINARY") as copy,
    ):
        copy.write(HEADER + rows)
