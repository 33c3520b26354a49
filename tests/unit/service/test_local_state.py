"""The state of an instance on a shared log: a damaged one is rebuilt, a wrong path is refused."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from millstream.model import file_damage
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.settings import EngineSettings
from millstream.service.opening import QUARANTINE, open_local_state

SETTINGS = EngineSettings()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "n1.state"
    store, problem = open_local_state(str(path), SETTINGS, "log 1")
    store.close()
    assert problem is None
    return path


def opened(path: Path, identity: str = "log 1") -> str | None:
    """The message of the problem when a state is opened, after which it opens without one."""
    store, problem = open_local_state(str(path), SETTINGS, identity)
    store.close()
    again, nothing = open_local_state(str(path), SETTINGS, identity)
    again.close()
    assert nothing is None
    return problem and problem.message


def damaged_block(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[3 * 4096 + 100] ^= 4
    file.write_bytes(content)


def damaged_header(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[100:9000] = bytes(8900)
    file.write_bytes(content)


def damaged_end(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: 3 * 4096 + 200])


@pytest.mark.parametrize("damage", [damaged_block, damaged_header, damaged_end])
def test_a_damaged_state_is_put_aside(file: Path, damage: object) -> None:
    assert callable(damage)
    damage(file)
    told = opened(file)
    assert told and str(file) in told and "rebuilt from the changelogs" in told
    assert Path(f"{file}{QUARANTINE}").exists()


def test_a_state_that_ends_its_process(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_damage, "_OPEN", "import os; os.abort()")
    Path(f"{file}{file_damage.OPENING}").touch()
    told = opened(file)
    assert told and "rebuilt" in told and Path(f"{file}{QUARANTINE}").exists()


def test_the_state_of_another_log_is_refused_and_left(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(MillstreamError, match="belongs to another cluster"):
        open_local_state(str(file), SETTINGS, "log 2")
    assert file.read_bytes() == before and not Path(f"{file}{QUARANTINE}").exists()


def test_what_is_no_database_is_refused_and_left(tmp_path: Path) -> None:
    """A wrong path must not rename a letter."""
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear Sir, " * 2000)
    with pytest.raises(UnavailableError):
        open_local_state(str(letter), SETTINGS, "log 1")
    assert letter.read_text() == "Dear Sir, " * 2000


def test_a_state_that_another_process_has_is_refused_and_left(file: Path) -> None:
    with duckdb.connect(str(file)), pytest.raises(MillstreamError):
        open_local_state(str(file), SETTINGS, "log 1")
    assert not Path(f"{file}{QUARANTINE}").exists()
