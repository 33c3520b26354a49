"""COPY: its options and formats, rows from clients, and clients that send no rows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.model import types as t
from millstream_server.postgres import commands as c
from millstream_server.postgres import copy_in, copying, session
from millstream_server.postgres.copied_values import converted
from millstream_server.postgres.copying import CopyFormat, pieces, writer_of
from millstream_server.postgres.refusals import PgError
from millstream_server.postgres.values import encoder
from tests.postgres.conftest import Shop
from tests.postgres.wire import Wire, fields, message

CSV = CopyFormat(csv=True, delimiter=",", null="")
PSQL = shutil.which("psql")


TABBED = CopyFormat()


def columns_of_rows(data: bytes, form: CopyFormat, count: int) -> list[list[str | None]]:
    """The fields of all rows by column."""
    columns: list[list[str | None]] = [[] for _ in range(count)]
    for piece in pieces(data, form, count):
        for column, fields_of_piece in zip(columns, piece, strict=True):
            column += fields_of_piece
    return columns


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("COPY t FROM STDIN", c.CopyFrom("t", "", TABBED)),
        ('copy public."T" (a, "b") from stdin', c.CopyFrom('public."T"', '(a, "b")', TABBED)),
        (
            "COPY t FROM STDIN WITH (FORMAT csv, HEADER)",
            c.CopyFrom("t", "", replace(CSV, header=True)),
        ),
        (
            "COPY t FROM STDIN CSV HEADER NULL AS 'x' DELIMITER ';'",
            c.CopyFrom("t", "", replace(CSV, header=True, null="x", delimiter=";")),
        ),
        ("COPY t FROM STDIN (DELIMITER E'\\t', NULL '')", c.CopyFrom("t", "", CopyFormat(null=""))),
        ("COPY t FROM STDIN (FORMAT 'text', HEADER false)", c.CopyFrom("t", "", TABBED)),
        ("COPY t FROM STDIN (FORMAT binary)", c.CopyFrom("t", "", CopyFormat(binary=True))),
        ("COPY t FROM STDIN BINARY", c.CopyFrom("t", "", CopyFormat(binary=True))),
        ("COPY t FROM STDIN ENCODING 'utf-8'", c.CopyFrom("t", "", TABBED)),
        ("COPY t FROM STDIN WITH DELIMITER '|'", c.CopyFrom("t", "", CopyFormat(delimiter="|"))),
        (
            "COPY (SELECT 1) TO STDOUT (FORMAT csv, QUOTE '''')",
            c.CopyOut("SELECT 1", replace(CSV, quote="'", escape="'")),
        ),
        ("COPY t FROM '/etc/passwd'", None),
        ("COPY stdin FROM 'a.csv'", None),
    ],
)
def test_options(text: str, command: c.Command | None) -> None:
    assert c.command_of(text) == command


@pytest.mark.parametrize(
    "text",
    [
        "COPY t FROM STDIN (FORMAT binary, HEADER)",
        "COPY t FROM STDIN BINARY DELIMITER '|'",
        "COPY t FROM STDIN (FREEZE)",
        "COPY t FROM STDIN (ENCODING 'latin1')",
        "COPY t FROM STDIN (HEADER maybe)",
        "COPY t FROM STDIN (DELIMITER 'ab')",
        "COPY t FROM STDIN (DELIMITER '\n')",
        "COPY t FROM STDIN (FORMAT csv, DELIMITER '\"')",
        "COPY t FROM STDIN (FORMAT csv HEADER)",
        "COPY t FROM STDIN (FORMAT csv, ESCAPE 'x')",
        "COPY t FROM STDIN WHERE a > 1",
        "COPY FROM STDIN",
        "COPY (SELECT 1) FROM STDIN",
        "COPY t (a) VALUES (1), (a) FROM STDIN",
        "COPY t (a + 1) FROM STDIN",
        "COPY t () FROM STDIN",
        "COPY t (a,) FROM STDIN",
        "COPY 1 FROM STDIN",
    ],
)
def test_what_is_no_copy_of_ours(text: str) -> None:
    with pytest.raises(PgError):
        c.command_of(text)


VALUES = st.one_of(st.none(), st.text(st.characters(exclude_characters="\0", codec="utf-8")))


@given(
    st.lists(st.lists(VALUES, min_size=2, max_size=2), max_size=6),
    st.sampled_from([CopyFormat(), CSV, CopyFormat(delimiter="|", null=""),
                     CopyFormat(True, ";", "NULL", False, "'", "'")]),
)  # fmt: skip
def test_what_is_written_is_read(rows: list[list[str | None]], given_format: CopyFormat) -> None:
    """In the text format an empty text cannot be told from NULL where NULL is written so."""
    if not given_format.csv and given_format.null == "":
        rows = [[value or None for value in row] for row in rows]
    line = writer_of(given_format)
    data = b"".join(line([None if v is None else v.encode() for v in row]) for row in rows)
    columns = columns_of_rows(data, given_format, 2)
    assert [list(row) for row in zip(*columns, strict=True)] == rows


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"", []),
        (b"1\ta\n2\tb", [("1", "a"), ("2", "b")]),
        (b"1\ta\r\n\\.\nnot read", [("1", "a")]),
        (b"\\N\t\\t\\x41\\101\\\\\\q\n", [(None, "\tAA\\q")]),
        (b"a\\\tb\tc\n", [("a\tb", "c")]),
        (b"\\\\N\t\n", [("\\N", "")]),
    ],
)
def test_the_text_format(data: bytes, wanted: list[tuple[str | None, str | None]]) -> None:
    columns = columns_of_rows(data, CopyFormat(), 2)
    assert list(zip(*columns, strict=True)) == wanted


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b'1,"a ""b"""\n2,\n3,""\n', [("1", 'a "b"'), ("2", None), ("3", "")]),
        (b'1,"two\nlines"\n\\.\n', [("1", "two\nlines")]),
        (b"1,a\r\n2,b", [("1", "a"), ("2", "b")]),
        (b"", []),
    ],
)
def test_csv(data: bytes, wanted: list[tuple[str | None, str | None]]) -> None:
    assert list(zip(*columns_of_rows(data, CSV, 2), strict=True)) == wanted


@pytest.mark.parametrize("data", [b"1\n", b"1\t2\t3\n", b"1\t\xff\n", b"\n"])
@pytest.mark.parametrize("form", [CopyFormat(), CSV])
def test_rows_that_are_none(data: bytes, form: CopyFormat) -> None:
    if form.csv:
        data = data.replace(b"\t", b",")
    with pytest.raises(PgError) as refused:
        columns_of_rows(data, form, 2)
    assert refused.value.code in ("22P04", "22021")


@given(st.binary(max_size=200), st.sampled_from([CopyFormat(), CSV]), st.integers(1, 3))
def test_any_bytes_are_rows_or_an_error(data: bytes, form: CopyFormat, count: int) -> None:
    try:
        columns = columns_of_rows(data, form, count)
    except PgError as error:
        assert error.code in ("22P04", "22021")
    else:
        assert len({len(column) for column in columns}) == 1


@given(
    st.lists(st.one_of(st.none(), st.text(st.characters(exclude_characters="\0", codec="utf-8"))))
)
def test_arrays_come_back(values: list[str | None]) -> None:
    kind = t.Array(t.STRING)
    assert converted([encoder(kind, 0)(values).decode()], kind, "a") == [values]


@pytest.mark.parametrize(
    ("kind", "texts", "wanted"),
    [
        (t.BYTES, ["\\x00ff", "AP8="], [b"\x00\xff", b"\x00\xff"]),
        (t.BOOLEAN, ["t", "FALSE", None], [True, False, None]),
        (t.DOUBLE, ["1.5", "-inf"], [1.5, float("-inf")]),
        (t.Decimal(6, 2), ["3.50"], [Decimal("3.50")]),
        (t.Array(t.INTEGER), ["{}", "{1, NULL,3}", "[4]"], [[], [1, None, 3], [4]]),
        (t.Map(t.STRING, t.INTEGER), ['{"a": 1}'], [{"a": 1}]),
    ],
)
def test_values(kind: t.SqlType, texts: list[str | None], wanted: list[Any]) -> None:
    assert converted(texts, kind, "c") == wanted


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (t.INTEGER, "1.5"), (t.BOOLEAN, "maybe"), (t.BYTES, "\\xzz"), (t.BYTES, "?"),
        (t.Decimal(4, 1), "x"), (t.DATE, "2024-13-01"), (t.Array(t.INTEGER), "{1"),
        (t.Array(t.INTEGER), "{1,}"), (t.Array(t.INTEGER), "{{1}}"), (t.Array(t.INTEGER), "{1}2"),
        (t.Array(t.INTEGER), "1"), (t.Map(t.STRING, t.INTEGER), "{a:1}"),
        (t.Struct(()), "[" * 100_000), (t.Array(t.STRING), "{" + " " * 1_000_000),
        (t.Array(t.STRING), "{" + "\\" * 1_000_001), (t.Array(t.STRING), '{"' + " " * 1_000_000),
    ],
)  # fmt: skip
def test_values_of_another_type(kind: t.SqlType, text: str) -> None:
    with pytest.raises(PgError, match=r"Row 2 of COPY: c is no") as refused:
        converted([None, text], kind, "c")
    assert refused.value.code == "22P02"


# ---- clients -------------------------------------------------------------------------------------


def amounts(shop: Shop, low: int) -> list[tuple[int, float]]:
    """The orders from an id on."""
    with shop.connect() as connection:
        found = connection.execute(f"SELECT id, amount FROM orders WHERE id >= {low}").fetchall()
    return sorted(found)


def test_rows_of_psycopg(shop: Shop) -> None:
    with shop.connect() as connection, connection.cursor() as at:
        with at.copy("COPY orders (id, person, amount) FROM STDIN") as copy:
            for number in range(5000, 5200):
                copy.write_row((number, 1, number / 2))
        assert at.rowcount == 200
        with at.copy('COPY "orders" ("id", "amount") FROM STDIN (FORMAT csv, HEADER)') as copy:
            copy.write("id,amount\n5200,\n")
        with at.copy("COPY public.orders (id) FROM STDIN"):
            pass
        assert at.rowcount == 0
    assert amounts(shop, 5000) == [(n, n / 2) for n in range(5000, 5200)] + [(5200, None)]


def test_every_type_goes_out_and_comes_in(shop: Shop) -> None:
    with shop.connect() as connection, connection.cursor() as at:
        with at.copy("COPY (SELECT * FROM known WHERE id = 1) TO STDOUT") as copy:
            (row,) = [bytes(line) for line in copy]
        with at.copy("COPY people FROM STDIN") as copy:
            copy.write(row.replace(b"1\tAnn", b"77\tAnn"))
        shop.engine.drain()
        one, other = (
            at.execute(f"SELECT * FROM known WHERE id = {number}").fetchone() for number in (1, 77)
        )
    assert one is not None and other is not None
    assert (other[0], other[1:]) == (77, one[1:])


@pytest.mark.parametrize(
    ("sql", "data", "error"),
    [
        ("COPY orders (id, amount) FROM STDIN", "6000\t1\n6001\n",
         psycopg.errors.BadCopyFileFormat),
        ("COPY orders (id, amount) FROM STDIN", "6000\t1\n6001\tx\n",
         psycopg.errors.InvalidTextRepresentation),
        ("COPY orders (id, amount) FROM STDIN CSV", '6000,1\n\n6001,2\n',
         psycopg.errors.BadCopyFileFormat),
        ("COPY orders (id, amount) FROM STDIN (FORMAT csv)", '6000,"1',
         psycopg.errors.BadCopyFileFormat),
        ("COPY nothing FROM STDIN", "1\n", psycopg.Error),
        ("COPY orders (id, nothing) FROM STDIN", "1\t2\n", psycopg.Error),
        ("COPY orders (id, id) FROM STDIN", "1\t2\n", psycopg.Error),
        ("COPY known FROM STDIN", "1\n", psycopg.Error),
        ("COPY people (name) FROM STDIN", "Zoe\n", psycopg.Error),
    ],
)  # fmt: skip
def test_a_copy_inserts_all_rows_or_none(
    shop: Shop, sql: str, data: str, error: type[psycopg.Error]
) -> None:
    with shop.connect() as connection:
        with pytest.raises(error), connection.cursor().copy(sql) as copy:
            copy.write(data)
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert amounts(shop, 6000) == []


def test_a_client_that_gives_up(shop: Shop) -> None:
    with shop.connect() as connection:
        with (
            pytest.raises(ZeroDivisionError),
            connection.cursor().copy("COPY orders (id) FROM STDIN") as copy,
        ):
            copy.write("7000\n")
            raise ZeroDivisionError
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert amounts(shop, 7000) == []


def test_more_bytes_than_are_held(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "BYTES_MAX", 1000)
    assert copy_in.BYTES_MAX > 1000
    with shop.connect() as connection:
        with (
            pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="at most 1000 bytes"),
            connection.cursor().copy("COPY orders (id) FROM STDIN") as copy,
        ):
            for _ in range(100):
                copy.write("8000\n" * 100)
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert amounts(shop, 8000) == []


@pytest.mark.parametrize("form", ["TEXT", "CSV"])
def test_more_rows_than_are_held(shop: Shop, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr(copying, "ROWS_MAX", 1000)
    with (
        shop.connect() as connection,
        pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="at most 1000 rows"),
        connection.cursor().copy(f"COPY orders (amount) FROM STDIN (FORMAT {form})") as copy,
    ):
        copy.write("8100\n" * 1001)
    with shop.connect() as connection:
        found = connection.execute("SELECT COUNT(*) FROM orders WHERE amount = 8100").fetchone()
    assert found in ((0,), None)


@pytest.mark.parametrize("form", ["TEXT", "CSV"])
def test_many_pieces_are_one_insert(shop: Shop, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """Numbers of rows count from the first piece on."""
    monkeypatch.setattr(copying, "PIECE_ROWS", 7)
    with shop.connect() as connection, connection.cursor() as at:
        lines = [f"{number}\n" for number in range(8200, 8250)]
        for wrong, message in (("x\n", "Row 51 of COPY"), ("99999999999999999999\n", "(?i)row 51")):
            with (
                pytest.raises(psycopg.Error, match=message),
                at.copy(f"COPY orders (id) FROM STDIN (FORMAT {form})") as copy,
            ):
                copy.write("".join([*lines, wrong]))
        assert amounts(shop, 8200) == []
        with at.copy(f"COPY orders (id) FROM STDIN (FORMAT {form})") as copy:
            copy.write(
                "".join(line.replace("82", "12" if form == "CSV" else "11") for line in lines)
            )
        assert at.rowcount == 50
        at.execute("SELECT DISTINCT rowtime FROM orders WHERE id >= 1100 AND id < 1150")
        assert len(at.fetchall()) <= (1 if form == "TEXT" else 2)


def test_a_time_limit_ends_it_and_the_session_goes_on(shop: Shop) -> None:
    with Wire(shop.door.postgres or 0) as wire:
        wire.asked("SET statement_timeout = 50")
        wire.send(message(b"Q", b"COPY orders (id) FROM STDIN\0"))
        wire.until(b"G")
        # Half a message: what follows it belongs to it.
        wire.send(message(b"d", b"9000\n")[:7])
        found = dict(wire.until(b"Z"))
        assert fields(found[b"E"])["C"] == "57014"
        wire.send(message(b"d", b"9000\n")[7:] + message(b"c"))
        wire.asked("SET statement_timeout = 0")
        assert b"D" in dict(wire.asked("SELECT 1"))
    assert amounts(shop, 9000) == []


@pytest.mark.parametrize(
    "end", [b"", message(b"X"), message(b"Q", b"SELECT 1\0"), message(b"d")[:3]]
)
def test_a_client_that_leaves_or_sends_something_else(shop: Shop, end: bytes) -> None:
    with Wire(shop.door.postgres or 0) as wire:
        wire.send(message(b"Q", b"COPY orders (id) FROM STDIN\0"))
        wire.until(b"G")
        wire.send(message(b"d", b"9100\n") + end)
    with shop.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert amounts(shop, 9100) == []


def test_rows_that_nobody_asked_for(shop: Shop) -> None:
    with Wire(shop.door.postgres or 0) as wire:
        wire.send(message(b"d", b"9200\n") + message(b"c") + message(b"f", b"no\0"))
        assert b"D" in dict(wire.asked("SELECT 1"))


@pytest.mark.skipif(PSQL is None, reason="psql is not installed (Debian: postgresql-client)")
def test_psql_copies_files(shop: Shop, tmp_path: Path) -> None:
    assert PSQL is not None
    (tmp_path / "in.csv").write_text("id,amount\n9300,1.5\n9301,\n")
    done = subprocess.run(
        [
            *(PSQL, "-X", shop.url, "-c", "\\copy orders (id, amount) from 'in.csv' csv header"),
            "-c",
            "\\copy (SELECT id, amount FROM orders WHERE id >= 9300) to 'out.csv' csv header",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["COPY", "2", "COPY", "2"]
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "id,amount"
    assert sorted(lines[1:]) == ["9300,1.5", "9301,"]


def test_a_push_query_sees_them(shop: Shop) -> None:
    with shop.connect() as one, shop.connect() as other:
        stream = one.cursor().stream("SELECT id FROM orders WHERE id >= 9400 EMIT CHANGES LIMIT 2")
        with other.cursor().copy("COPY orders (id) FROM STDIN") as copy:
            copy.write("9400\n9401\n")
        # To its end: psycopg waits for it when the connection is closed.
        assert sorted(stream) == [(9400,), (9401,)]


def test_json_of_nested_values(shop: Shop) -> None:
    with shop.connect() as connection:
        with connection.cursor().copy("COPY people (id, counts, home) FROM STDIN") as copy:
            copy.write_row((78, json.dumps({"x": 1}), json.dumps({"CITY": "Ulm", "ZIP": 1})))
        shop.engine.drain()
        found = connection.execute("SELECT counts, home FROM known WHERE id = 78").fetchone()
    assert found is not None
    assert found[0] == {"x": 1} and found[1]["CITY"] == "Ulm"
