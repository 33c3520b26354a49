"""Makes a database of a backup."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from millstream.backup.backup import BACKUPS, taken_at
from millstream.backup.manifest import Manifest, SegmentFile, damaged, decode_manifest, key_of
from millstream.command_topic.commands import IDENTITY
from millstream.log.commit_mark import SUFFIX
from millstream.log.log import configured
from millstream.log.snapshot import LogContents, write_log
from millstream.log.stored import Segment, Stored
from millstream.model.errors import ConflictError, MillstreamError, StatementError
from millstream.model.iso_times import iso_timestamp
from millstream.places.place import Place


def restore(url: str, path: str | Path, at: int | None = None) -> Manifest:
    """Make a database at `path` of the newest backup at the place of a URL, or of the newest one
    that was taken until `at` (ms). It is a database of its own: its state is rebuilt when it is
    opened, and its backups go to another place.

    Raises ConflictError if there is a file, CorruptionError (E-BACKUP-DAMAGED) naming a file of the
    backup that is not as it was written, StatementError if there is no such backup. There is no
    file at `path` then.
    """
    target = Path(path)
    for name in (target, Path(f"{target}.wal")):
        if name.exists():
            raise ConflictError(
                f"'{name}' is there already.",
                hint="Restore into a new file; it can be renamed while it is closed.",
            )
    place = Place.of(url)
    manifest = chosen(place, at)
    unfinished = target.with_name(f"{target.stem}-{uuid.uuid4().hex}{target.suffix}")
    try:
        write_log(
            unfinished,
            _renewed(manifest.contents),
            lambda stored, segment: _rows(place, manifest, stored, segment),
        )
        # What a former file of this name held is not expected of this one.
        Path(f"{target}{SUFFIX}").unlink(missing_ok=True)
        unfinished.replace(target)
    finally:
        for suffix in ("", ".wal"):
            Path(f"{unfinished}{suffix}").unlink(missing_ok=True)
    return manifest


def chosen(place: Place, at: int | None) -> Manifest:
    """The newest backup at a place, or the newest one that was taken until `at`."""
    times = {name: taken_at(name) for name in place.names(BACKUPS)}
    found = {taken: name for name, taken in times.items() if taken is not None}
    if not found:
        raise StatementError(
            f"There is no backup at '{place.url}'.",
            hint=f"A place of backups has a folder '{BACKUPS}'.",
        )
    until = [taken for taken in found if at is None or taken <= at]
    if not until:
        raise StatementError(
            f"The backups at '{place.url}' are later than that.",
            hint=f"The first one was taken at {iso_timestamp(min(found) * 1000)}.",
        )
    name = found[max(until)]
    return decode_manifest(name, place.read(name))


def _renewed(contents: LogContents) -> LogContents:
    """The contents of another database: state and backups of the former one are not its own."""
    identity = uuid.uuid4().hex
    topics = tuple(
        replace(stored, topic=configured(stored.topic, {IDENTITY: identity}))
        if IDENTITY in stored.topic.config
        else stored
        for stored in contents.topics
    )
    return replace(contents, topics=topics)


def _rows(
    place: Place, manifest: Manifest, stored: Stored, segment: Segment
) -> Iterator[pa.RecordBatch]:
    file = manifest.files[key_of(stored, segment)]
    check_file(place, file)
    if file.rows == 0:
        return
    rows = 0
    with place.open(file.name) as source:
        try:
            for batch in pq.ParquetFile(source).iter_batches():
                rows += batch.num_rows
                yield batch
        except (pa.ArrowException, OSError) as error:
            raise damaged(file.name, str(error)) from error
    if rows != file.rows:
        raise damaged(file.name, f"it has {rows} rows instead of {file.rows}")


def check_file(place: Place, file: SegmentFile) -> None:
    """Raise CorruptionError unless a file of a backup is as it was written."""
    found = place.digest(file.name)
    if found != (file.bytes, file.sha256):
        raise damaged(file.name, f"it has {found[0]} bytes, and another content than was written")


def verify(place: Place, manifest: Manifest) -> list[MillstreamError]:
    """Read each file of a backup; the errors of those that are not as they were written."""
    found = []
    for file in manifest.files.values():
        try:
            check_file(place, file)
        except MillstreamError as error:
            found.append(error)
    return found
