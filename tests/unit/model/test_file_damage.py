"""A file that ends the process which opens it does so once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import duckdb
import pytest

from millstream.model import file_damage
from millstream.model.errors import CorruptionError
from millstream.model.file_damage import SUFFIX, marked

DIES = "import os; os.abort()"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    duckdb.connect(str(path)).close()
    return path


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening any file ends a process."""
    monkeypatch.setattr(file_damage, "_OPEN", DIES)


def mark(file: Path) -> Path:
    return Path(f"{file}{SUFFIX}")


def test_the_mark_is_there_while_a_file_is_opened(file: Path) -> None:
    with marked(str(file)):
        assert mark(file).exists()
    assert not mark(file).exists()
    with pytest.raises(ValueError), marked(str(file)):
        raise ValueError
    assert not mark(file).exists()


def test_no_process_is_started_without_a_mark(file: Path, deadly: None) -> None:
    with marked(str(file)):
        pass


@pytest.mark.usefixtures("deadly")
def test_a_file_that_ends_its_process_is_refused_from_then_on(file: Path) -> None:
    mark(file).touch()
    for _ in range(2):
        with pytest.raises(CorruptionError) as raised, marked(str(file)):
            pytest.fail("it was opened")
        assert str(file) in raised.value.message
        assert mark(file).exists()


def test_a_process_that_died_of_something_else_does_not_count(file: Path) -> None:
    """With a real process, which is killed while it has the file open."""
    program = """
        import os, signal, sys
        from millstream.model.file_damage import marked
        with marked(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)
    """
    died = subprocess.run([sys.executable, "-c", dedent(program), str(file)], check=False)
    assert died.returncode < 0 and mark(file).exists()
    with marked(str(file)):
        duckdb.connect(str(file)).close()
    assert not mark(file).exists()


@pytest.mark.parametrize("script", ["raise SystemExit(3)", "import os; os.kill(os.getpid(), 9)"])
def test_only_a_fault_of_the_process_counts(
    file: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have the file, or memory may be short."""
    monkeypatch.setattr(file_damage, "_OPEN", script)
    mark(file).touch()
    with marked(str(file)):
        pass


def test_without_a_python_to_start_nothing_is_noticed(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(file.parent / "none"))
    mark(file).touch()
    with marked(str(file)):
        pass


def test_a_new_file_and_one_in_memory_have_no_mark(
    tmp_path: Path, deadly: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (str(tmp_path / "new.db"), ":memory:"):
        Path(path + SUFFIX).touch()
        with marked(path):
            pass


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(file: Path) -> None:
    file.parent.chmod(0o500)
    with marked(str(file)):
        pass
    file.parent.chmod(0o700)
