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
from millstream.model.file_damage import OPENING, is_changed, marked, note_directory

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
    return Path(f"{file}{OPENING}")


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


@pytest.mark.parametrize("executable", ["/nowhere/python", "", None])
def test_without_a_python_to_start_nothing_is_noticed(
    file: Path, executable: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    mark(file).touch()
    with marked(str(file)):
        pass


@pytest.mark.usefixtures("deadly")
def test_a_frozen_program_is_not_started_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    mark(file).touch()
    with marked(str(file)):
        pass


def test_a_new_file_and_one_in_memory_have_no_mark(
    tmp_path: Path, deadly: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (str(tmp_path / "new.db"), ":memory:"):
        Path(path + OPENING).touch()
        with marked(path):
            pass


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(file: Path) -> None:
    file.parent.chmod(0o500)
    with marked(str(file)):
        pass
    file.parent.chmod(0o700)


CONTENT = bytes(range(256)) * 160
PLACES = [(12288, 8192), (24576, 4096)]


@pytest.fixture
def noted(tmp_path: Path) -> Path:
    """A file, after a checkpoint."""
    path = tmp_path / "a.db"
    path.write_bytes(CONTENT)
    note_directory(str(path), lambda at, length: CONTENT[at : at + length], PLACES)
    return path


def with_bytes(path: Path, at: int, value: bytes) -> bool:
    """Whether a change is noticed."""
    content = bytearray(CONTENT)
    content[at : at + len(value)] = value
    path.write_bytes(content)
    return is_changed(str(path))


def test_a_change_of_the_directory_is_noticed(noted: Path) -> None:
    assert not is_changed(str(noted))
    for at in (12288, 20479, 24576, 28671):
        assert with_bytes(noted, at, bytes([CONTENT[at] ^ 1]))
    exchanged = CONTENT[12296:12304] + CONTENT[12288:12296]
    assert with_bytes(noted, 12288, exchanged), "an exclusive or would be the same"
    for at in (0, 20480, 24575, 28672):
        assert not with_bytes(noted, at, bytes([CONTENT[at] ^ 1])), "that is no directory"


def test_after_another_checkpoint_nothing_is_known(noted: Path) -> None:
    content = bytearray(CONTENT)
    content[12288] ^= 1
    for header in (4096, 8192):
        content[header] ^= 1
        noted.write_bytes(content)
        assert not is_changed(str(noted))
        content[header] ^= 1


def test_sums_that_are_damaged_or_missing_say_nothing(noted: Path) -> None:
    sums = Path(f"{noted}.sums")
    whole = sums.read_bytes()
    assert with_bytes(noted, 12288, b"x")
    for damaged in (
        b"",
        whole[:10],
        whole[:-1],
        whole[:30] + bytes([whole[30] ^ 1]) + whole[31:],
        b"y" + whole[1:],
    ):
        sums.write_bytes(damaged)
        assert not is_changed(str(noted))
    sums.unlink()
    assert not is_changed(str(noted))
    assert not is_changed(str(noted.parent / "none.db"))


@pytest.mark.usefixtures("deadly")
def test_a_suspect_is_opened_by_another_process_first(file: Path) -> None:
    with pytest.raises(CorruptionError), marked(str(file), suspect=True):
        pytest.fail("it was opened")
