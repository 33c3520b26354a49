"""Streams and tables that other programs may read without the engine, described by a listing.

The listing has everything needed for that by name: columns, formats, topic. For an embedded log it
is `streams.json` in the folder of sealed segments, and also has how far each partition was sealed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from millstream.catalog.source import Format, Source, TimestampColumn
from millstream.history.reading import Source as Reader
from millstream.history.sealed import FromSegments, Segment
from millstream.history.splits import Split
from millstream.log.log import TopicPartition
from millstream.model.errors import CorruptionError, StatementError
from millstream.model.schema import Column, Role, Schema, SourceKind, WindowedKey, WindowKind
from millstream.plan.types import sql_type
from millstream_parser import parse_type

SEALED = ".sealed"
"""The suffix after the name of a database file: the folder of its log as Parquet."""
MANIFEST = "streams.json"
VERSION = 2
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Shared:
    """A stream or table, the source of its records, and the splits to read; those of a table are
    whole partitions."""

    source: Source
    reader: Reader
    splits: tuple[Split, ...]


def share(folder: Path, sources: Collection[Source], sealed: FromSegments) -> None:
    """Write the listing of these streams and tables into a folder of sealed segments."""
    listed = {
        source.name: {
            str(partition): [
                [segment.first, segment.end, str(Path(segment.path).relative_to(folder))]
                for segment in segments
            ]
            for (topic, partition), segments in sealed.segments.items()
            if topic == source.topic
        }
        for source in sources
    }
    unfinished = folder / f".{uuid4().hex}"
    unfinished.write_text(listing(sources, listed), encoding="utf-8")
    unfinished.replace(folder / MANIFEST)


def listing(sources: Iterable[Source], segments: Mapping[str, Any] = NOTHING) -> str:
    """Everything needed to read sources, as JSON; `segments` by name, if they are in segments."""
    fields = {
        source.name: _fields(source) | {"segments": segments.get(source.name, {})}
        for source in sources
    }
    return json.dumps({"version": VERSION, "streams": fields})


def listed(text: str, where: str, kind: SourceKind, name: str) -> tuple[Source, dict[str, Any]]:
    """A source of a listing, and its segments. Raises StatementError if there is none of this kind
    and name, CorruptionError if the listing cannot be read; `where` describes its owner."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CorruptionError(
            f"What is to be read of {where} cannot be told: the list of its streams is damaged",
            detail=str(error),
        ) from error
    if found["version"] > VERSION:
        raise StatementError(f"{where} was sealed by a newer version.", hint="Upgrade this one.")
    known = {
        other: fields
        for other, fields in found["streams"].items()
        if SourceKind(fields.get("kind", SourceKind.STREAM)) is kind
    }
    fields = known.get(name) or known.get(name.upper())
    if fields is None:
        what = kind.value.lower()
        raise StatementError(
            f"There is no {what} {name} among what was sealed of {where}.",
            hint=f"There are: {', '.join(sorted(known)) or 'none'}.",
        )
    return _source(fields, kind), fields["segments"]


def shared(path: str, kind: SourceKind, name: str) -> Shared:
    """A source of a database file (or of its folder of segments) as it was last sealed.

    Raises StatementError if nothing is sealed there, or no source of this kind and name exists.
    """
    folder = Path(path) if Path(path).is_dir() else Path(path + SEALED)
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise StatementError(
            f"Nothing of '{path}' can be read here: its log is not sealed.",
            hint=f"millstream.connect('{path}').seal() writes it down as Parquet beside the file.",
        ) from None
    source, fields = listed(text, f"'{path}'", kind, name)
    found = {
        (source.topic, partition): segments
        for partition, segments in _segments(folder, fields).items()
    }
    return Shared(source, FromSegments(found), tuple(_splits(found, kind)))


def _splits(
    found: Mapping[TopicPartition, tuple[Segment, ...]], kind: SourceKind
) -> Iterator[Split]:
    for place, segments in found.items():
        if kind is SourceKind.STREAM:
            yield from (Split(*place, segment.first, segment.end) for segment in segments)
        elif segments:
            yield Split(*place, segments[0].first, segments[-1].end)


def _segments(
    folder: Path, fields: Mapping[str, list[list[Any]]]
) -> dict[int, tuple[Segment, ...]]:
    return {
        int(partition): tuple(
            Segment(first, end, str(folder / path)) for first, end, path in segments
        )
        for partition, segments in fields.items()
    }


def _fields(source: Source) -> dict[str, Any]:
    window = source.window
    return {
        "name": source.name,
        "kind": source.kind.value,
        "topic": source.topic,
        "columns": [[c.name, str(c.type), c.role.value, c.header] for c in source.schema.columns],
        "key_format": asdict(source.key_format),
        "value_format": asdict(source.value_format),
        "window": None if window is None else [window.kind.value, window.size_ms],
        "timestamp": None if source.timestamp is None else asdict(source.timestamp),
    }


def _source(fields: Mapping[str, Any], kind: SourceKind) -> Source:
    window, timestamp = fields["window"], fields["timestamp"]
    columns = tuple(
        Column(name, sql_type(parse_type(text), {}), Role(role), header)
        for name, text, role, header in fields["columns"]
    )
    return Source(
        fields["name"],
        kind,
        Schema(columns),
        fields["topic"],
        Format(**fields["key_format"]),
        Format(**fields["value_format"]),
        None if window is None else WindowedKey(WindowKind(window[0]), window[1]),
        None if timestamp is None else TimestampColumn(**timestamp),
    )
