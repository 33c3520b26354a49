"""The checkpoints of one database or service at their place.

The state of a task is a function of its changelog up to a position. So any process may write one,
however late: it is right as long as the changelog exists; the newest one is the one with the
highest position. Nothing has to keep a process that is no owner any more from writing one.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import quote

import pyarrow as pa

from millstream.checkpoints.manifest import (
    ROWS_NAME,
    Checkpoint,
    RowsFile,
    damaged,
    decode_checkpoint,
    encode_checkpoint,
)
from millstream.model.errors import CorruptionError, MillstreamError
from millstream.places.place import Place, Purpose

CHECKPOINTS = Purpose(
    "checkpoints", "State is restored from the changelogs meanwhile.", "E-CHECKPOINT-PLACE"
)
KEPT = 2
"""Checkpoints of a task that stay: an instance may just be reading the last but one."""
_NAME = re.compile(r"([0-9]{20})\.json")
# Unlike LZ4, ZSTD is worth its time where bytes are kept and moved.
_WRITING = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)


@dataclass(frozen=True, slots=True)
class StateId:
    """The state of a sub-topology of a query whose changelog topic has this id."""

    query_id: str
    subtopology: int
    changelog_id: str

    @property
    def folder(self) -> str:
        """The name of its folder. A query that is created again has another one."""
        return f"{quote(self.query_id, safe='')}_{self.subtopology}@{in_path(self.changelog_id)}"


@dataclass(frozen=True, slots=True)
class Repository:
    """`owner`: the id of the database or of the service, because a place may be shared.

    All methods raise UnavailableError (E-CHECKPOINT-PLACE) when the place does not answer.
    """

    place: Place
    owner: str

    @staticmethod
    def of(url: str, owner: str) -> Repository:
        """The checkpoints at a URL. Raises StatementError (E-CONFIG) if it names no place."""
        return Repository(Place.of(url, CHECKPOINTS), owner)

    def positions(self, state: StateId, partition: int) -> list[int]:
        """The positions of a task's checkpoints, the highest first."""
        names = (name.rpartition("/")[2] for name in self.place.names(self._at(state, partition)))
        found = (_NAME.fullmatch(name) for name in names)
        return sorted((int(each[1]) for each in found if each), reverse=True)

    def read(self, state: StateId, partition: int, position: int) -> Checkpoint:
        """A checkpoint. Raises CorruptionError if it is damaged."""
        name = f"{self._at(state, partition)}/{position:020}.json"
        found = decode_checkpoint(name, self.place.read(name))
        if found.position != position:
            raise damaged(name, f"it is as of {found.position}")
        return found

    def newest(self, state: StateId, partition: int, least: int, most: int) -> Iterator[Checkpoint]:
        """The readable checkpoints whose positions are from `least` to `most`, the newest first."""
        for position in self.positions(state, partition):
            if least <= position <= most:
                with suppress(CorruptionError):
                    yield self.read(state, partition, position)

    def rows(self, state: StateId, partition: int, file: RowsFile) -> pa.Table:
        """The rows of a file. Raises CorruptionError if it is damaged."""
        name = f"{self._at(state, partition)}/{file.name}"
        content = self.place.read(name)
        # Arrow's reader may crash on what is damaged.
        if (len(content), hashlib.sha256(content).hexdigest()) != (file.bytes, file.sha256):
            raise damaged(name, "its checksum is another one")
        with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
            return reader.read_all()

    def write_rows(
        self,
        state: StateId,
        partition: int,
        position: int,
        tables: Iterable[tuple[str, pa.Table]],
        *,
        changes: bool = False,
    ) -> tuple[RowsFile, ...]:
        """Write a file for each of some tables of rows, of a checkpoint as of `position`."""
        files = []
        for number, (table, rows) in enumerate(tables):
            name = f"{position:020}-{uuid.uuid4().hex}-{number}.arrows"
            content = _packed(rows)
            digest = self._put(f"{self._at(state, partition)}/{name}", content)
            files.append(RowsFile(name, table, rows.num_rows, len(content), digest, changes))
        return tuple(files)

    def publish(self, state: StateId, partition: int, checkpoint: Checkpoint) -> None:
        """Make a checkpoint readable, and delete what only older ones than the kept ones need."""
        folder = self._at(state, partition)
        self._put(f"{folder}/{checkpoint.position:020}.json", encode_checkpoint(checkpoint))
        with suppress(MillstreamError):
            self._tidy(state, partition)

    def _put(self, name: str, content: bytes) -> str:
        """Write a file; returns its SHA-256."""
        _, digest = self.place.write(name, lambda file: file.write(content))
        return digest

    def _tidy(self, state: StateId, partition: int) -> None:
        folder = self._at(state, partition)
        positions = self.positions(state, partition)
        kept = positions[:KEPT]
        if len(kept) < KEPT:
            return
        used = {file.name for at in kept for file in self.read(state, partition, at).files}
        for position in positions[KEPT:]:
            self.place.delete(f"{folder}/{position:020}.json")
        for path in self.place.names(folder):
            name = path.rpartition("/")[2]
            found = ROWS_NAME.fullmatch(name)
            # What is newer may be of a checkpoint that another process is about to publish.
            if found and int(found[1]) <= kept[-1] and name not in used:
                self.place.delete(path)

    def states(self) -> list[str]:
        """The folders of all states that have checkpoints."""
        return [name.rpartition("/")[2] for name in self.place.folders(in_path(self.owner))]

    def drop(self, folder: str) -> None:
        """Delete all checkpoints of a state."""
        self.place.delete_folder(f"{in_path(self.owner)}/{folder}")

    def _at(self, state: StateId, partition: int) -> str:
        return f"{in_path(self.owner)}/{state.folder}/{partition}"


def in_path(name: str) -> str:
    """An id as one part of a path. Those of Kafka's topics are in Base64, in which `/` is a digit;
    `_` stands for it as in the other alphabet of Base64."""
    return quote(name.replace("/", "_").replace("+", "-"), safe="")


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_WRITING) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue().to_pybytes())
