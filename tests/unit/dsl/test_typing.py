"""Type checkers accept what works, and find what does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).resolve().parents[3]
TYPED = ROOT / "tests" / "typed"


def checked(tmp_path_factory: pytest.TempPathFactory, name: str) -> set[tuple[int, str]]:
    """The lines of a file in which mypy finds mistakes, with their codes."""
    # The configuration of the project, whose files are not followed for their own mistakes.
    out, err, _ = api.run(
        [
            *("--config-file", str(ROOT / "pyproject.toml"), "--strict", "--no-error-summary"),
            *("--follow-imports", "silent", "--hide-error-context", "--no-pretty"),
            *("--cache-dir", str(tmp_path_factory.getbasetemp() / "mypy")),
            str(TYPED / name),
        ]
    )
    assert not err
    lines = [line for line in out.splitlines() if ": error: " in line]
    found = {(int(line.split(":")[1]), line.rsplit("[", 1)[1].rstrip("]")) for line in lines}
    assert all(line.split(":")[0].endswith(name) for line in lines), out
    return found


def test_what_works_is_accepted(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert checked(tmp_path_factory, "good.py") == set()


def test_mistakes_are_found(tmp_path_factory: pytest.TempPathFactory) -> None:
    text = (TYPED / "bad.py").read_text(encoding="utf-8")
    marked = {
        (number, found.group(1))
        for number, line in enumerate(text.splitlines(), 1)
        if (found := re.search("# error: (.*)", line))
    }
    assert len(marked) > 20
    assert checked(tmp_path_factory, "bad.py") == marked
