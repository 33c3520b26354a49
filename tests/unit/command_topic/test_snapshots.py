"""What a snapshot of the command topic replays before it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream.command_topic import snapshots


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the commands that snapshots replay."""
    texts: list[str] = []
    plan = snapshots.plan_command

    def note(command: Any, *more: Any) -> Any:
        texts.append(command.text)
        return plan(command, *more)

    monkeypatch.setattr(snapshots, "plan_command", note)
    return texts


def types(first: int, last: int) -> str:
    return "".join(f"CREATE TYPE t{number} AS INT;" for number in range(first, last))


def test_commands_that_are_all_needed_are_not_replayed(tmp_path: Path, planned: list[str]) -> None:
    path = str(tmp_path / "shop.db")
    with millstream.connect(path) as db:
        db.execute(types(0, 60))
    assert planned == []
    with millstream.connect(path) as db:
        assert len(db.engine.catalog.types) == 60


def test_commands_are_replayed_when_some_are_left_out(tmp_path: Path, planned: list[str]) -> None:
    path = str(tmp_path / "shop.db")
    with millstream.connect(path) as db:
        db.execute(types(0, 3) + "DROP TYPE t1;" + types(3, 60))
    assert any("t0 " in text for text in planned)
    assert not any("t1 " in text for text in planned)
    with millstream.connect(path) as db:
        assert sorted(db.engine.catalog.types) == sorted(f"T{n}" for n in range(60) if n != 1)
