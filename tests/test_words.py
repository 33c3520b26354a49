"""The words of the house: names that were replaced stay out, and no machine is a person.

CONTRIBUTING.md says how to name and how to write; this checks what a machine can check of it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("cli", "docs", "engine", "grammar", "parser", "server", "tests")
EXEMPT = ("CHANGELOG.md",)
"""The history of the project."""
PRONOUNS = re.compile(r"\b(?:he|she|his|him|whoever)\b", re.IGNORECASE)
RETIRED = frozenset(
    """
    Claim Holding Custody AllTasks Attending
    Turn Turns TurnLock LostTurnError
    Outbox Pacing Trouble Elsewhere Frontier Lanes
    DuckKernel Kernel KernelSpec
    lone_rows Subscribe Settle
    Feed Horizon Sightings Outlet outlet LastingWriter insist
    Ledger Standing Abreast
    Presence Sight Peers Whereabouts Neighbour
    Gathering Ask share_out placing
    Door OpenDoor
    Filled Replaced Draft Past
    Rehearsal rehearsal leftovers
    Piece Surroundings _Meeting Said Look
    Tail Texts Spoken Answering
    Instance Execution Stages
    """.split()  # noqa: SIM905
)
"""Private names that terms of Kafka Streams, Flink, DuckDB and databases have replaced."""


def checked(suffix: str) -> list[str]:
    """The files with a suffix whose words are checked, relative to the repository."""
    found = [*ROOT.glob(f"*{suffix}")]
    for folder in FOLDERS:
        found += (ROOT / folder).rglob(f"*{suffix}")
    names = sorted(path.relative_to(ROOT).as_posix() for path in found)
    return [
        name
        for name in names
        if not name.startswith(EXEMPT)
        and "/node_modules/" not in name
        and name != Path(__file__).relative_to(ROOT).as_posix()
    ]


def prose(source: str) -> Iterator[str]:
    """The comments and docstrings of a module, those of attributes included."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.value.value


def persons(text: str) -> list[str]:
    """The pronouns for persons in a text."""
    return [found.lower() for found in PRONOUNS.findall(text)]


def retired(source: str) -> list[str]:
    """The replaced names that a module uses as identifiers."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [
        token.string for token in tokens if token.type == tokenize.NAME and token.string in RETIRED
    ]


@pytest.mark.parametrize("name", checked(".py"))
def test_words_of_modules(name: str) -> None:
    """No module uses a replaced name as an identifier, or a pronoun for a person in its prose."""
    source = (ROOT / name).read_text()
    assert retired(source) == []
    assert persons("\n".join(prose(source))) == []


@pytest.mark.parametrize("name", checked(".md"))
def test_words_of_pages(name: str) -> None:
    """No page uses a pronoun for a person."""
    assert persons((ROOT / name).read_text()) == []


def test_bad_words_are_found() -> None:
    """The checks can fail: they find planted words, and only whole ones."""
    bad = '''
class Claim:
    """Whoever holds it asks for his tasks."""  # he waits
    place = lone_rows
'''
    assert retired(bad) == ["Claim", "lone_rows"]
    assert sorted(persons("\n".join(prose(bad)))) == ["he", "his", "whoever"]
    good = '"""The broker that holds this channel: its history, in the cache."""\nClaims = 1\n'
    assert retired(good) == []
    assert persons(good) == []


def test_paths_of_the_tour_exist() -> None:
    """Each file or folder that ARCHITECTURE.md names exists."""
    named = re.findall(r"`((?:[\w.]+/)+[\w.]*|[\w/]+\.py)`", (ROOT / "ARCHITECTURE.md").read_text())
    assert len(named) > 20
    below = ROOT / "engine" / "millstream"
    assert [name for name in named if not ((ROOT / name).exists() or (below / name).exists())] == []
