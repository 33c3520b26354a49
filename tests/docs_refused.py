"""docs/refused.md: statements that are refused, from the table of refusals, with the answers."""

from __future__ import annotations

import re
from itertools import pairwise

from millstream import Database
from millstream.query.session import Session
from millstream_grammar.grammar import statement_names
from tests.docs_sql import heading
from tests.refusals.sources import MORE, OWN, opened, refusal
from tests.refusals.table import ROWS
from tests.refusals.table.row import Refused
from tests.sql.first_day import told

INTRODUCTION = """\
What Millstream refuses, statement by statement, and the answer: the part it points at is
underlined, and `=>` is what to do. Each one is executed by a test. They are about the sources at
the end.
"""
OTHER = "Other statements"
_LINE_MAX = 240
"""Longer statements are too long to be read: they show what is nested too deep."""
_KINDS = {
    "create_stream_as": r"CREATE (OR REPLACE )?STREAM\b.*\bAS\s+\(?SELECT\b",
    "create_table_as": r"CREATE (OR REPLACE )?TABLE\b.*\bAS\s+\(?SELECT\b",
    "create_stream": r"CREATE (OR REPLACE )?STREAM\b",
    "create_table": r"CREATE (OR REPLACE )?TABLE\b",
    "insert_values": r"INSERT INTO\b.*\bVALUES\b",
    "insert_select": r"INSERT INTO\b",
    "drop_source": r"DROP (STREAM|TABLE)\b",
    "alter_source": r"ALTER (STREAM|TABLE)\b",
    "select": r"(SELECT|WITH)\b",
    "show": r"(SHOW|LIST)\b",
}
"""How a statement of a rule begins, where it is not by the words of its name."""


def refused(made: str) -> str:
    """The page; `made` says where it is from."""
    entries: dict[str, list[str]] = {}
    with opened() as database:
        for row in shown():
            entries.setdefault(chapter_of(row.text), []).append(_entry(database, row))
    page = f"# Refused statements\n\n{made}\n{INTRODUCTION}"
    order = [*map(heading, statement_names()), OTHER]
    for title in sorted(entries, key=order.index):
        page += f"\n## {title}\n" + "".join(entries[title])
    return page + f"\n## The sources\n\n```sql\n{(OWN + MORE).strip()}\n```\n"


def chapters() -> set[str]:
    """The headings of the page."""
    return {chapter_of(row.text) for row in shown()}


def shown() -> list[Refused]:
    """What is on the page."""
    return [row for row in ROWS if max(map(len, row.text.split("\n"))) <= _LINE_MAX]


def chapter_of(text: str) -> str:
    """The heading under which a statement is: that of its rule in docs/sql.md."""
    names = sorted(statement_names(), key=lambda name: (name not in _KINDS, -len(name)))
    for name in names:
        begins = _KINDS.get(name, name.replace("_", r"\s+") + r"\b")
        if re.match(begins, text, re.IGNORECASE | re.DOTALL):
            return heading(name)
    return OTHER


def _entry(database: Database, row: Refused) -> str:
    session = Session(dict(row.given), local=row.local)
    given = "".join(f"SET '{name}' = '{value}';\n" for name, value in row.given.items())
    over = "" if row.local else "-- over a network\n"
    answer = told(refusal(database, session, row.text))
    return "\n```text\n" + over + given + "\n".join([*_underlined(row), answer]) + "\n```\n"


def _underlined(row: Refused) -> list[str]:
    """The lines of the statement, and a line below each that the refusal points at."""
    if row.place is None:
        return row.text.split("\n")
    start, end = row.place
    starts = [0, *(at.end() for at in re.finditer("\n", row.text)), len(row.text) + 1]
    found = []
    for begin, after in pairwise(starts):
        found.append(row.text[begin : after - 1])
        first, last = max(start, begin), min(end, after - 1)
        if first < last:
            found.append(" " * (first - begin) + "^" * (last - first))
    return found
