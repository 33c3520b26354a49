"""Folders of processes that are gone are removed, and no others."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millstream.history.folders import OwnFolder

OWNER = """
import sys, threading
from millstream.history.folders import OwnFolder
folder = OwnFolder("kind")
(folder.path / "rows").mkdir()
print(folder.path, flush=True)
threading.Event().wait()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@contextmanager
def process() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process with a folder of its own."""
    made = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    try:
        assert made.stdout is not None
        yield made, Path(made.stdout.readline().strip())
    finally:
        made.kill()
        made.wait()


def test_what_a_killed_process_has_left_is_removed() -> None:
    with process() as (killed, left), process() as (_, living):
        assert (left / "rows").is_dir()
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        mine = OwnFolder("kind")
        assert not left.exists()
        assert (living / "rows").is_dir()
        mine.remove()
        assert not mine.path.exists()


def test_a_process_that_is_stopped_lives() -> None:
    with process() as (stopped, folder):
        stopped.send_signal(signal.SIGSTOP)
        OwnFolder("kind").remove()
        assert (folder / "rows").is_dir()


def test_those_of_this_process_stay() -> None:
    first, second = OwnFolder("kind"), OwnFolder("kind")
    assert first.path.is_dir() and second.path.is_dir()
    first.remove()
    second.remove()


def test_what_is_not_known_to_be_left_stays(temporary: Path) -> None:
    """Another kind's, one that is being made, one of somebody else's."""
    with process() as (killed, left):
        killed.kill()
    unowned, linked = temporary / "millstream-kind-unowned", temporary / "millstream-kind-link"
    unowned.mkdir()
    other = temporary / "other"
    other.mkdir()
    (other / "owner").touch()
    linked.symlink_to(other)
    OwnFolder("other").remove()
    assert left.is_dir()
    OwnFolder("kind").remove()
    assert not left.exists()
    assert unowned.is_dir() and (linked / "owner").exists()
