"""What a newcomer types wrongly on the first day is answered as the file says."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import millstream
from millstream.functions.catalogue import builtin_catalogue
from millstream.model.other_dialects import FUNCTIONS, TYPES
from millstream_parser.other_dialects import STATEMENTS
from millstream_parser.script import PRODUCTIONS
from tests.sql.first_day import SETUP, answer, blocks

BLOCKS = list(blocks())
CALLED = re.compile(r"\b([A-Z_]{3,})\(")


@pytest.fixture(scope="module")
def database() -> Iterator[millstream.Database]:
    with millstream.connect() as opened:
        opened.execute(SETUP)
        yield opened


@pytest.mark.parametrize(("statement", "expected"), BLOCKS, ids=[block[0][:60] for block in BLOCKS])
def test_the_answer(database: millstream.Database, statement: str, expected: str) -> None:
    assert answer(database, statement) == expected


def test_there_are_enough_of_them() -> None:
    assert len({statement for statement, _ in BLOCKS}) == len(BLOCKS) >= 120
    without = [statement for statement, expected in BLOCKS if "=> " not in expected]
    assert len(without) <= 40, "where the message alone says what to do"


def test_hints_name_functions_that_exist() -> None:
    known = {name.upper() for name in builtin_catalogue().named()} | {"CAST", "DECIMAL"}
    for name, instead in FUNCTIONS.items():
        assert name not in known, f"{name} exists"
        assert {called for called in CALLED.findall(instead) if called not in known} == set()


def test_hints_name_types_that_exist(database: millstream.Database) -> None:
    usable = [kind for kind in TYPES.values() if "…" not in kind]
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(sorted(set(usable))))
    database.execute(
        f"CREATE STREAM typed ({columns})"
        " WITH (KAFKA_TOPIC='typed', PARTITIONS=1, VALUE_FORMAT='JSON');"
    )


def test_words_of_other_dialects_are_no_statements() -> None:
    assert STATEMENTS.keys().isdisjoint(PRODUCTIONS)
