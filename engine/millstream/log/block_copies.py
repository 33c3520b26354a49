"""Copies of the blocks that a checkpoint writes over, for as long as it takes.

DuckDB's checkpoint writes what is new to free blocks and then switches to it, but for the blocks
with the directory of tables: what is new of it goes to free places in the same blocks, each of
which is written again as a whole. If power is lost in the middle of such a write, the checksum of
the block is wrong, and what was there before is lost as well. So these blocks are copied to a file
beside the log first, which is deleted when the checkpoint is complete.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import duckdb
import numpy as np

from millstream.log.duckfile import MEMORY
from millstream.model.file_damage import note_directory

SUFFIX = ".blocks"
_HEADERS = 3 * 4096
"""Where the first block begins in a file of DuckDB."""
_MAGIC = b"msblock1"
_ENTRY = struct.Struct("<qqI")
_FACTOR, _START = np.uint64(0xBF58476D1CE4E5B9), np.uint64(5381)


class Directory:
    """The blocks with the directory of tables of an open file."""

    def __init__(self, path: str, database: str = "") -> None:
        """`database`: the name under which it is attached, "" for the connection's own."""
        self.path = path
        self._database = database
        # Closing any descriptor of a file releases the locks that the process has on it, and
        # DuckDB has one: this one stays open.
        self._descriptor = -1
        with suppress(OSError):
            self._descriptor = -1 if path == MEMORY else os.open(path, os.O_RDONLY)

    @property
    def readable(self) -> bool:
        """Whether there is a file, and it can be read."""
        return self._descriptor >= 0

    def places(self, cursor: duckdb.DuckDBPyConnection) -> list[tuple[int, int]]:
        """Where the blocks are, and how long."""
        named = f"'{self._database}'" if self._database else "current_database()"
        ((size,),) = cursor.execute(
            f"SELECT block_size FROM pragma_database_size() WHERE database_name = {named}"
        ).fetchall()
        of = named if self._database else ""
        blocks = cursor.execute(f"SELECT DISTINCT block_id FROM pragma_metadata_info({of})")
        return [(_HEADERS + block * size, size) for (block,) in sorted(blocks.fetchall())]

    def read(self, location: int, length: int) -> bytes:
        """A part of the file."""
        return os.pread(self._descriptor, length, location)

    def note(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Have a change noticed when the file is opened; after a checkpoint."""
        if self.readable:
            note_directory(self.path, self.read, self.places(cursor))

    def close(self) -> None:
        """Only after DuckDB has closed the file. Idempotent."""
        if self.readable:
            os.close(self._descriptor)
            self._descriptor = -1


class BlockCopies:
    """Copies blocks of an open file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._directory = Directory(path)

    @contextmanager
    def kept(self, cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Keep copies of the blocks while the caller takes a checkpoint; they stay if it raises.
        Raises OSError if they cannot be written."""
        if not self._directory.readable:
            yield
            return
        file = Path(self._path + SUFFIX)
        unfinished = Path(f"{file}.new")
        with unfinished.open("wb") as target:
            target.write(_MAGIC)
            for location, length in self._directory.places(cursor):
                content = self._directory.read(location, length)
                target.write(_ENTRY.pack(location, len(content), zlib.crc32(content)))
                target.write(content)
            target.flush()
            os.fsync(target.fileno())
        unfinished.replace(file)
        yield
        file.unlink()

    def close(self) -> None:
        """Only after DuckDB has closed the file."""
        self._directory.close()


def there_are_copies(path: str) -> bool:
    """Whether a checkpoint of the file at `path` is under way, or was when its process ended."""
    return Path(path + SUFFIX).exists()


def put_back(path: str) -> None:
    """Write the copied blocks back to the file at `path`, which this process must not have open, if
    one of them is torn: the file has not switched to what is new then. Nothing is written while
    another process has the file open."""
    file = Path(path + SUFFIX)
    with suppress(OSError):
        copies = _copies(file.read_bytes())
        with Path(path).open("rb+") as target:
            fcntl.lockf(target, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if all(map(_whole, copies.values())) and any(
                not _whole(_at(target, location, len(block))) for location, block in copies.items()
            ):
                for location, block in copies.items():
                    target.seek(location)
                    target.write(block)
                target.flush()
                os.fsync(target.fileno())


def _at(file: BinaryIO, location: int, length: int) -> bytes:
    file.seek(location)
    return file.read(length)


def _whole(block: bytes) -> bool:
    """Whether a block has the checksum of its content, as DuckDB computes it. Where it computes it
    in another way, no copy has, and nothing is put back."""
    if len(block) % 8 or len(block) < 16:
        return False
    words = np.frombuffer(block, "<u8")
    found = np.bitwise_xor.reduce(words[1:] * _FACTOR) ^ _START
    return bool(found == words[0])


def _copies(content: bytes) -> dict[int, bytes]:
    """The blocks by location; none if the file is damaged."""
    found: dict[int, bytes] = {}
    at = len(_MAGIC)
    if content[:at] != _MAGIC:
        return {}
    while at < len(content):
        if len(content) < at + _ENTRY.size:
            return {}
        location, length, checksum = _ENTRY.unpack_from(content, at)
        at += _ENTRY.size
        block = content[at : at + length]
        if zlib.crc32(block) != checksum or len(block) != length:
            return {}
        found[location] = block
        at += length
    return found


def forget(path: str) -> None:
    """Delete copies: the file has opened without them, and later ones may differ."""
    with suppress(OSError):
        Path(path + SUFFIX).unlink(missing_ok=True)
