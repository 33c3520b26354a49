"""Compiled decimal arithmetic on DuckDB against `oracle`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from random import Random

import duckdb

from millstream.functions.function import Catalogue
from millstream.model import types as t
from millstream.model.physical import duckdb_type
from millstream.model.schema import Column, Schema
from millstream.operators.expressions import compile_expression
from millstream.operators.sql import guarded, identifier
from millstream.plan.scope import Scope
from millstream.plan.typing import type_expression
from millstream_parser import parse_expression
from tests.decimals import oracle
from tests.registered import register

CATALOGUE = Catalogue({}, {}, {})
ROWS = 6
TREES = 25
"""For each table."""


@dataclass(frozen=True)
class Mismatch:
    """A tree whose type or values are not those of the oracle."""

    text: str
    expected: object
    found: object


def sql_type(kind: oracle.Kind) -> t.SqlType:
    """A type of the oracle as the engine's."""
    if isinstance(kind, str):
        return t.INTEGER if kind == "INTEGER" else t.BIGINT
    return t.Decimal(*kind)


def mismatches(seed: int, trees: int, operators: int = 4) -> Iterator[Mismatch]:
    """Compare so many random trees, each over some rows, fast and exact."""
    random = Random(seed)
    with duckdb.connect(config={"threads": 1}) as con:
        register(con)
        for start in range(0, trees, TREES):
            columns = oracle.some_columns(random, 10)
            rows = [
                {column.name: oracle.a_value(random, column.kind) for column in columns}
                for _ in range(ROWS)
            ]
            drawn = [
                oracle.a_tree(random, columns, random.randint(1, operators))
                for _ in range(min(TREES, trees - start))
            ]
            with _table(con, columns, rows):
                yield from _compared(con, columns, rows, drawn)


def compared(
    columns: Sequence[oracle.Column],
    rows: Sequence[Mapping[str, oracle.Value]],
    trees: Sequence[oracle.Tree],
) -> Iterator[Mismatch]:
    """Compare some trees over some rows."""
    with duckdb.connect(config={"threads": 1}) as con:
        register(con)
        with _table(con, columns, rows):
            yield from _compared(con, columns, rows, trees)


@contextmanager
def _table(
    con: duckdb.DuckDBPyConnection,
    columns: Sequence[oracle.Column],
    rows: Sequence[Mapping[str, oracle.Value]],
) -> Iterator[None]:
    listed = ", ".join(f"{c.name} {duckdb_type(sql_type(c.kind))}" for c in columns)
    con.execute(f"CREATE TABLE rows ({listed})")
    marks = ", ".join("?" * len(columns))
    for row in rows:
        values = [shown(row[column.name], column.kind) for column in columns]
        con.execute(f"INSERT INTO rows VALUES ({marks})", values)
    try:
        yield
    finally:
        con.execute("DROP TABLE rows")


def shown(value: oracle.Value, kind: oracle.Kind) -> str | None:
    """A value as text with the digits of its type."""
    if value is None:
        return None
    scale = 0 if isinstance(kind, str) else oracle.physical(kind)[1]
    units = value * 10**scale
    assert units.denominator == 1
    digits = str(abs(units.numerator)).rjust(scale + 1, "0")
    sign = "-" if value < 0 else ""
    return sign + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def _compared(
    con: duckdb.DuckDBPyConnection,
    columns: Sequence[oracle.Column],
    rows: Sequence[Mapping[str, oracle.Value]],
    drawn: Sequence[oracle.Tree],
) -> Iterator[Mismatch]:
    schema = Schema(tuple(Column(column.name, sql_type(column.kind)) for column in columns))
    scope = Scope((("R", schema),), CATALOGUE)
    texts = [oracle.text_of(tree) for tree in drawn]
    typed = [type_expression(parse_expression(text), scope) for text in texts]
    compiled = {
        exact: [
            compile_expression(one, CATALOGUE, exact=exact, columns=identifier) for one in typed
        ]
        for exact in (False, True)
    }
    exact = _values(con, [guarded(text) for text in compiled[True]])
    for place, tree in enumerate(drawn):
        kind = oracle.kind_of(tree)
        if typed[place].type != sql_type(kind):
            yield Mismatch(texts[place], sql_type(kind), typed[place].type)
            continue
        expected = [_text(oracle.value_of(tree, row)) for row in rows]
        found = [_text(_fraction(row[place])) for row in exact]
        if found != expected:
            yield Mismatch(texts[place], expected, found)
        fast = _fast(con, compiled[False][place])
        if fast is not None and fast != expected:
            yield Mismatch(f"fast: {texts[place]}", expected, fast)


def _values(con: duckdb.DuckDBPyConnection, texts: Sequence[str]) -> list[tuple[str | None, ...]]:
    listed = ", ".join(f"CAST({text} AS VARCHAR)" for text in texts)
    return con.execute(f"SELECT {listed} FROM rows").fetchall()


def _fast(con: duckdb.DuckDBPyConnection, text: str) -> list[str] | None:
    try:
        return [_text(_fraction(value)) for (value,) in _values(con, [text])]
    except duckdb.Error:
        return None


def _fraction(text: str | None) -> oracle.Value:
    return None if text is None else Fraction(text)


def _text(value: oracle.Value) -> str:
    return "NULL" if value is None else str(value)
