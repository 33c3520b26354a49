"""docs/sql.md: the statements, from the grammar and from tests/sql_reference.md."""

from __future__ import annotations

import re
from collections.abc import Collection
from importlib.resources import files
from pathlib import Path

from millstream_grammar.grammar import productions, statement_names

NOTES = Path(__file__).parent / "sql_reference.md"
GROUPS = {
    "select": "Queries",
    "create_stream": "Definition",
    "insert_values": "Data",
    "terminate": "Control",
    "assert_topic": "Asserts",
    "show": "Inspection",
    "run_script": "Client and storage",
}
"""The first statement of each chapter."""
HEADINGS = {
    "create_stream_as": "CREATE STREAM AS SELECT",
    "create_table_as": "CREATE TABLE AS SELECT",
    "drop_source": "DROP STREAM, DROP TABLE",
    "alter_source": "ALTER STREAM, ALTER TABLE",
    "insert_values": "INSERT INTO … VALUES",
    "insert_select": "INSERT INTO … SELECT",
    "show": "SHOW, LIST",
}
"""What is not just the name of the rule."""
INTRODUCTION = """\
Every statement ends with `;`. Keywords and names are read in any case; a name in back-ticks keeps
its own. In the grammar, CAPITALS are keywords, `[ a ]` may be left out, `a*` and `a+` are repeated,
and `a | b` are alternatives. Types and expressions are at the end; all functions are in
[functions.md](functions.md). Every example is executed by a test.
"""


def sql(made: str, refused: Collection[str]) -> str:
    """The page; `made` says where it is from, `refused` are the headings of docs/refused.md."""
    notes, texts, rules = sections(), _texts(), productions()
    page = f"# SQL\n\n{made}\n{INTRODUCTION}"
    for name in statement_names():
        if name in GROUPS:
            page += f"\n## {GROUPS[name]}\n"
        note = f"\n{notes[name]}\n" if notes[name] else ""
        page += f"\n### {heading(name)}\n\n{rules[name].title}.\n\n{texts[name]}{note}"
        if heading(name) in refused:
            page += f"\n[What is refused](refused.md#{anchor(heading(name))})\n"
    page += "\n## Parts of statements\n"
    for name, rule in rules.items():
        if name not in (*statement_names(), "script", "statement"):
            title = f"{rule.title}:\n\n" if rule.title else ""
            page += f"\n{title}{texts[name]}"
    return page


def heading(name: str) -> str:
    """The heading of a statement, by the name of its rule."""
    return HEADINGS.get(name, name.upper().replace("_", " "))


def anchor(title: str) -> str:
    """What a heading is called in links."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _texts() -> dict[str, str]:
    """Each rule as it is in the file, as a block of code."""
    source = files("millstream_grammar").joinpath("statements.ebnf").read_text(encoding="utf-8")
    found = re.findall(r"^([a-z_]+) ::=(.*\n(?:[ \t].*\n)*)", source, re.MULTILINE)
    return {name: f"```ebnf\n{name} ::={body.rstrip()}\n```\n" for name, body in found}


def sections() -> dict[str, str]:
    """What is written by hand about each statement."""
    found = re.split(r"^## (\w+)\n", NOTES.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(found[1::2], map(str.strip, found[2::2]), strict=True))


def examples() -> list[str]:
    """All examples, in the order of the page."""
    return [
        block.strip()
        for note in sections().values()
        for block in re.findall(r"```sql\n(.*?)```", note, re.DOTALL)
    ]
