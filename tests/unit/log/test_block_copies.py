"""A checkpoint that is under way is nobody else's to take back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millstream.log.block_copies import SUFFIX, put_back
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Topic
from millstream.model.errors import ConflictError
from tests.unit.log.suite import run

OPEN = """
import sys
from millstream.log.embedded import EmbeddedLog
from millstream.model.errors import UnavailableError
try:
    EmbeddedLog.open(sys.argv[1])
except UnavailableError as error:
    print(error.code)
"""


def test_a_file_that_is_open_is_not_mended(tmp_path: Path) -> None:
    """Copies are there while a checkpoint is taken, and a block may look torn then."""
    path = tmp_path / "a.db"
    log = EmbeddedLog.open(path)
    log.create_topic(Topic("t", 1))
    # Closing any descriptor of the file would release the lock that DuckDB has on it.
    descriptor = os.open(path, os.O_RDWR)
    with log._file.cursor() as cursor, log._file._copies.kept(cursor):
        whole = os.pread(descriptor, 4096, 3 * 4096)
        os.pwrite(descriptor, bytes(4096), 3 * 4096)
        size = os.fstat(descriptor).st_size
        torn = os.pread(descriptor, size, 0)
        for _ in range(2):
            assert run(OPEN, path).strip() == "E-LOG-LOCKED"
            assert os.pread(descriptor, size, 0) == torn
            with pytest.raises(ConflictError, match="open in this process already"):
                EmbeddedLog.open(path)
            assert os.pread(descriptor, size, 0) == torn
        assert Path(f"{path}{SUFFIX}").exists()
        os.pwrite(descriptor, whole, 3 * 4096)
    log.close()
    os.close(descriptor)
    EmbeddedLog.open(path).close()


def test_a_file_that_does_not_open_leaves_nothing_open(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    EmbeddedLog.open(path).close()
    log = EmbeddedLog.open(path)
    with log._file.change() as (cursor, _):
        cursor.execute("UPDATE log.about SET version = 99")
    log.close()
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for _ in range(5):
        with pytest.raises(Exception, match="has format 99"):
            EmbeddedLog.open(path)
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before


def test_without_copies_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    EmbeddedLog.open(path).close()
    before = path.read_bytes()
    put_back(str(path))
    Path(f"{path}{SUFFIX}").write_bytes(b"no copies")
    put_back(str(path))
    assert path.read_bytes() == before
