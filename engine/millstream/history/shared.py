"""Streams of an embedded log that others may read: a folder of sealed segments that says whose.

`streams.json` in it has, by the names of the streams, all that is needed to read them without the
database: columns, formats, topic, and how far each partition was sealed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from millstream.catalog.source import Format, Source, TimestampColumn
from millstream.history.sealed import FromSegments, Segment
from millstream.history.splits import Split
from millstream.model.errors import CorruptionError, StatementError
from millstream.model.schema import Column, Role, Schema, SourceKind, WindowedKey, WindowKind
from millstream.plan.types import sql_type
from millstream_parser import parse_type

SEALED = ".sealed"
"""Behind the name of a database file: the folder of its log as Parquet."""
MANIFEST = "streams.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Shared:
    """A stream and its sealed segments, by partition."""

    source: Source
    segments: Mapping[int, tuple[Segment, ...]]

    def splits(self) -> tuple[Split, ...]:
        """Its records, a split for each segment."""
        return tuple(
            Split(self.source.topic, partition, segment.first, segment.end)
            for partition, segments in self.segments.items()
            for segment in segments
        )

    def reader(self) -> FromSegments:
        """What reads its splits."""
        topic = self.source.topic
        return FromSegments({(topic, part): found for part, found in self.segments.items()})


def share(folder: Path, sources: Iterable[Source], sealed: FromSegments) -> None:
    """Write down that these streams are in a folder of sealed segments."""
    streams = {
        source.name: _fields(source)
        | {
            "segments": {
                str(partition): [
                    [segment.first, segment.end, str(Path(segment.path).relative_to(folder))]
                    for segment in segments
                ]
                for (topic, partition), segments in sealed.segments.items()
                if topic == source.topic
            }
        }
        for source in sources
    }
    unfinished = folder / f".{uuid4().hex}"
    unfinished.write_text(json.dumps({"version": VERSION, "streams": streams}), encoding="utf-8")
    unfinished.replace(folder / MANIFEST)


def shared(path: str, name: str) -> Shared:
    """A stream of a database file (or of its folder of segments) as it was last sealed.

    StatementError where nothing is sealed there, or no stream of this name.
    """
    folder = Path(path) if Path(path).is_dir() else Path(path + SEALED)
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StatementError(
            f"No stream of '{path}' can be read here: its log is not sealed.",
            hint=f"millstream.connect('{path}').seal() writes it down as Parquet beside the file.",
        ) from None
    except ValueError as error:
        raise CorruptionError(f"'{folder / MANIFEST}' cannot be read", detail=str(error)) from error
    if found["version"] > VERSION:
        raise StatementError(f"'{folder}' was sealed by a newer version.", hint="Upgrade this one.")
    streams = found["streams"]
    fields = streams.get(name) or streams.get(name.upper())
    if fields is None:
        raise StatementError(
            f"There is no stream {name} among what was sealed of '{path}'.",
            hint=f"There are: {', '.join(sorted(streams)) or 'none'}. Tables are asked in SQL.",
        )
    return Shared(_source(fields), _segments(folder, fields["segments"]))


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
        "topic": source.topic,
        "columns": [[c.name, str(c.type), c.role.value, c.header] for c in source.schema.columns],
        "key_format": asdict(source.key_format),
        "value_format": asdict(source.value_format),
        "window": None if window is None else [window.kind.value, window.size_ms],
        "timestamp": None if source.timestamp is None else asdict(source.timestamp),
    }


def _source(fields: Mapping[str, Any]) -> Source:
    window, timestamp = fields["window"], fields["timestamp"]
    columns = tuple(
        Column(name, sql_type(parse_type(text), {}), Role(role), header)
        for name, text, role, header in fields["columns"]
    )
    return Source(
        fields["name"],
        SourceKind.STREAM,
        Schema(columns),
        fields["topic"],
        Format(**fields["key_format"]),
        Format(**fields["value_format"]),
        None if window is None else WindowedKey(WindowKind(window[0]), window[1]),
        None if timestamp is None else TimestampColumn(**timestamp),
    )
