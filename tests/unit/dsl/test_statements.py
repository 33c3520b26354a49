"""Statements of chains are read back as they were printed, whatever their names and texts are."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream import col, hopping
from millstream.dsl.joins import within_of
from millstream.dsl.queries import emitting, items_of
from millstream.dsl.statements import create_as
from millstream.model.names import folded
from millstream_parser import parse, print_statement
from millstream_parser import statements as s
from tests.draws import draws

NO_CONNECTION: Any = None
"""Only functions of Python need one."""
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8) | st.text(
    alphabet="a'\"`\n \t\r\\$?:/*-;{}%.", min_size=1, max_size=8
)
LENGTHS = st.integers(1, 10**12).map(lambda ms: timedelta(milliseconds=ms)) | st.sampled_from(
    ["1 day", "90 SECONDS", "5 milliseconds"]
)
GRACE = st.none() | st.just(timedelta(0)) | LENGTHS


@settings(max_examples=draws(300), derandomize=True, database=None, deadline=None)
@given(
    TEXTS.filter(lambda name: "\0" not in name),
    TEXTS,
    LENGTHS,
    GRACE,
    GRACE,
    st.integers(1, 2**31),
    st.booleans(),
)
def test_statements_survive_printing(
    name: str,
    text: str,
    size: timedelta | str,
    grace: timedelta | str | None,
    retention: timedelta | str | None,
    count: int,
    flag: bool,
) -> None:
    quoted = f"`{name.replace('`', '``')}`"
    assert folded(quoted) == name
    source = s.AliasedSource(name, folded(quoted))
    within = within_of((size, timedelta(0)), grace)
    query = s.Query(
        items_of(NO_CONNECTION, [quoted, col(quoted).alias(quoted)], {quoted: text}, "select"),
        source,
        (s.Join("INNER", source, (col(f"{quoted}.{quoted}") == text).tree, within),),
        hopping(size, size, grace=grace, retention=retention or None),
        group_by=(col(quoted).tree,),
        having=(col(quoted) != text).tree,
    )
    options = {"topic": text, "partitions": count, "wrap_single_value": flag}
    flags = {"or_replace": flag, "if_not_exists": not flag}
    statement = create_as("TABLE", quoted, emitting(query), options | flags)
    assert parse(print_statement(statement)) == (statement,)
