"""Arrays and bytes as parameters: their forms, what is none, and published clients."""

from __future__ import annotations

import asyncio
import datetime
from decimal import Decimal
from typing import Any

import asyncpg
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.model import types as t
from millstream_server.postgres.arguments import ARRAYS, arguments
from millstream_server.postgres.messages import ProtocolError
from millstream_server.postgres.refusals import PgError
from millstream_server.postgres.values import encoder, pg_type
from tests.postgres.conftest import Shop

ELEMENTS: dict[t.SqlType, st.SearchStrategy[Any]] = {
    t.BIGINT: st.integers(-(2**63), 2**63 - 1),
    t.INTEGER: st.integers(-(2**31), 2**31 - 1),
    t.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    t.BOOLEAN: st.booleans(),
    t.STRING: st.text(st.characters(exclude_characters="\0", codec="utf-8")),
    t.BYTES: st.binary(),
    t.Decimal(12, 3): st.decimals(-(10**8), 10**8, places=3),
    t.TIME: st.times(),
}


@given(
    st.sampled_from(list(ELEMENTS)).flatmap(
        lambda k: st.tuples(st.just(k), st.lists(st.one_of(st.none(), ELEMENTS[k])))
    ),
    st.sampled_from([0, 1]),
)
def test_arrays_come_back(drawn: tuple[t.SqlType, list[Any]], form: int) -> None:
    element, values = drawn
    kind = t.Array(element)
    raw = encoder(kind, form)(values)
    assert arguments([raw], [form], [pg_type(kind).oid]) == [values]


def test_each_array_is_one_of_the_types_that_columns_have() -> None:
    for element in (*ELEMENTS, t.DATE, t.TIMESTAMP):
        assert ARRAYS[pg_type(t.Array(element)).oid] == pg_type(element).oid


@given(st.binary(max_size=60), st.sampled_from([0, 1]), st.sampled_from([17, *ARRAYS]))
def test_any_bytes_are_a_value_or_an_error(raw: bytes, form: int, kind: int) -> None:
    try:
        (found,) = arguments([raw], [form], [kind])
    except (PgError, ProtocolError) as error:
        assert isinstance(error, PgError) or "UTF-8" in str(error)
    else:
        assert isinstance(found, bytes if kind == 17 else list)


@pytest.mark.parametrize(
    ("kind", "raw"),
    [(17, b"00ff"), (17, b"\\x0"), (17, b"\\xzz"), (1007, b"{1"), (1007, b"{a}"), (1007, b"1")],
)
def test_texts_that_are_none(kind: int, raw: bytes) -> None:
    with pytest.raises(PgError, match="Parameter 1 is no value of its type"):
        arguments([raw], [0], [kind])


# ---- clients -------------------------------------------------------------------------------------

ROW: tuple[Any, ...] = (["a,b", None, '"'], [1, 2], [Decimal("1.50")], b"\x00'\xff")
SETUP = """
CREATE STREAM {0} (id BIGINT KEY, tags ARRAY<STRING>, ns ARRAY<BIGINT>, paid ARRAY<DECIMAL(6, 2)>,
    raw BYTES, born ARRAY<DATE>)
  WITH (kafka_topic='{0}', value_format='JSON', partitions=1);
"""


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg(shop: Shop, binary: bool) -> None:
    name = f"listed{binary:d}"
    shop.feed(SETUP.format(name))
    form = "%b" if binary else "%t"
    with shop.connect() as connection:
        row = ", ".join([form] * 5)
        connection.execute(
            f"INSERT INTO {name} (id, tags, ns, paid, raw) VALUES ({row})", (1, *ROW)
        )
        found = connection.execute(f"SELECT tags, ns, paid, raw FROM {name}").fetchone()
        assert found == ROW
        asked = connection.execute(f"SELECT id FROM {name} WHERE raw = {form}", (ROW[3],))
        assert asked.fetchone() == (1,)


def test_asyncpg(shop: Shop) -> None:
    """It asks for the types of the parameters, and then what arrays of them are."""
    shop.feed(SETUP.format("asked"))
    born = [datetime.date(2026, 1, 31)]

    async def talk() -> tuple[Any, ...]:
        at = await asyncpg.connect(
            host="127.0.0.1", port=shop.door.postgres, user="bob", database="shop"
        )
        insert = "INSERT INTO asked (id, tags, ns, paid, raw, born) VALUES ($1, $2, $3, $4, $5, $6)"
        await at.execute(insert, 1, *ROW, born)
        columns = "tags, ns, paid, raw, born"
        found = await at.fetchrow(f"SELECT {columns} FROM asked WHERE raw = $1", ROW[3])
        await at.close()
        return tuple(found)

    assert asyncio.run(talk()) == (*ROW, born)


def test_casts_of_arrays(shop: Shop) -> None:
    shop.feed(SETUP.format("casting"))
    with shop.connect() as connection:
        connection.execute(
            "INSERT INTO casting (id, tags, ns) VALUES (1, %s::text[], %b::bigint[])",
            (["a", None], [5]),
        )
        found = connection.execute("SELECT tags, (ns)::int[] FROM casting").fetchone()
        assert found == (["a", None], [5])
        names = connection.execute(
            "SELECT typname FROM pg_type WHERE oid = ANY(%b::oid[]) ORDER BY 1", ([23, 25],)
        )
        assert names.fetchall() == [("int4",), ("text",)]
        shown = connection.execute("SELECT '::oid[]' AS a FROM pg_namespace LIMIT 1")
        assert shown.fetchone() == ("::oid[]",), "a string stays what it is"


def test_an_empty_array_is_refused_with_words(shop: Shop) -> None:
    """ksqlDB's dialect has no literal for it."""
    shop.feed(SETUP.format("empty"))
    with shop.connect() as connection, pytest.raises(psycopg.Error, match="list without"):
        connection.execute("INSERT INTO empty (id, ns) VALUES (1, %b)", ([],))
