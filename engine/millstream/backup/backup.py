"""Backs up a database in a file, while it goes on.

A backup is a manifest (`backups/<ms>.json`) and the files of segments that it names. A segment only
grows until it is closed, so backups at one place share files, and the next one writes only what is
new. The state is not backed up: it is rebuilt from the changelogs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq

from millstream.backup.manifest import (
    Manifest,
    SegmentFile,
    decode_manifest,
    encode_manifest,
    key_of,
)
from millstream.command_topic.commands import IDENTITY
from millstream.log.embedded import EmbeddedLog
from millstream.log.snapshot import LogContents
from millstream.log.stored import Segment, Stored
from millstream.model.errors import ConflictError, CorruptionError, StatementError
from millstream.places.place import HashingFile, Place

BACKUPS = "backups"
SEGMENTS = "segments"
_NAME = re.compile(rf"{BACKUPS}/([0-9]+)\.json")


@dataclass(frozen=True, slots=True)
class BackedUp:
    """A backup that was taken at a time in ms: its files, and those of them that are new."""

    taken: int
    files: int
    new_files: int
    new_bytes: int
    dropped: int
    """Earlier backups that were dropped."""

    def __str__(self) -> str:
        return (
            f"Backup {self.taken}: {self.files} segments, {self.new_files} of them new "
            f"({self.new_bytes} bytes)"
        )


def back_up(
    log: EmbeddedLog,
    url: str,
    clock: Callable[[], int],
    keep: int | None = None,
    settled: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> BackedUp:
    """Back up all topics and positions of a log as of one moment to the place of a URL, one
    database to a place. `keep`: how many backups stay there, this one included; None for all.
    `settled` is entered while the moment is taken, not while files are written.

    Raises UnavailableError (E-BACKUP-PLACE) when the place does not answer, ConflictError if it has
    backups of another database, StatementError for a URL that names no place. Nothing that was
    backed up before is changed then.
    """
    if keep is not None and keep < 1:
        raise StatementError(f"{keep} backups cannot be kept.", hint="Keep at least 1.")
    place = Place.of(url)
    earlier = manifests(place)
    known = {file.name: file for each in earlier for file in each.files.values()}
    new: list[SegmentFile] = []
    files = {}
    with ExitStack() as stack:
        with settled():
            snapshot = stack.enter_context(log.snapshot())
        database = identity_of(snapshot.contents)
        _check_same(place, database, earlier)
        for stored in snapshot.contents.topics:
            for segment in stored.segments:
                name = _file_name(database, stored, segment)
                if name not in known:
                    with closing(snapshot.rows(stored, segment)) as batches:
                        known[name] = _written(place, name, batches)
                    new.append(known[name])
                files[key_of(stored, segment)] = known[name]
        taken = max((clock(), *(each.taken + 1 for each in earlier)))
        manifest = Manifest(database, taken, snapshot.contents, files)
    content = encode_manifest(manifest)
    place.write(manifest_name(taken), lambda file: file.write(content))
    dropped = _drop(place, [*earlier, manifest], keep)
    return BackedUp(taken, len(files), len(new), sum(file.bytes for file in new), dropped)


def identity_of(contents: LogContents) -> str:
    """The id of the database, which its command topic has; "" if it has none yet."""
    found = (stored.topic.config.get(IDENTITY, "") for stored in contents.topics)
    return max(found, default="")


def manifest_name(taken: int) -> str:
    """The name of a backup's manifest; names are in the order of the times."""
    return f"{BACKUPS}/{taken:015}.json"


def manifests(place: Place) -> list[Manifest]:
    """The backups at a place, the oldest first, without damaged ones: none can be restored."""
    found = []
    for name in place.names(BACKUPS):
        if taken_at(name) is not None:
            with suppress(CorruptionError):
                found.append(decode_manifest(name, place.read(name)))
    return found


def taken_at(name: str) -> int | None:
    """When the backup of a manifest's name was taken; None for the name of another file."""
    found = _NAME.fullmatch(name)
    return None if found is None else int(found[1])


def _check_same(place: Place, database: str, earlier: Iterable[Manifest]) -> None:
    if any(each.database != database for each in earlier):
        raise ConflictError(
            f"'{place.shown}' has backups of another database.",
            hint="Back up each database to a place of its own; one that was restored is another.",
        )


def _file_name(database: str, stored: Stored, segment: Segment) -> str:
    """The name of the file of a segment with the records that it has now. Rows are only added, so
    it is another name where there are other rows."""
    following = stored.segments[stored.segments.index(segment) + 1 :]
    ends = following[0].first if following else stored.ends
    number = "-".join(map(str, (*key_of(stored, segment), sum(ends))))
    return f"{SEGMENTS}/{database}/{number}.parquet"


def _written(place: Place, name: str, batches: Iterator[pa.RecordBatch]) -> SegmentFile:
    first = next(batches, None)
    rows = 0

    def write(file: HashingFile) -> None:
        nonlocal rows
        if first is None:
            return
        with pq.ParquetWriter(pa.PythonFile(file, "w"), first.schema, compression="zstd") as writer:
            for batch in chain([first], batches):
                writer.write_batch(batch)
                rows += batch.num_rows

    size, digest = place.write(name, write)
    return SegmentFile(name, rows, size, digest)


def _drop(place: Place, taken: list[Manifest], keep: int | None) -> int:
    """Delete backups but for the newest ones, then files that none needs. Nothing where all stay:
    a store may not list a backup yet that needs them."""
    if keep is None:
        return 0
    old, kept = taken[:-keep], taken[-keep:]
    for manifest in old:
        place.delete(manifest_name(manifest.taken))
    used = {file.name for manifest in kept for file in manifest.files.values()}
    for name in place.names(f"{SEGMENTS}/{taken[-1].database}"):
        if name not in used:
            place.delete(name)
    return len(old)
