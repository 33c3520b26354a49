"""What one backup consists of, as JSON. It is written last: without it, there is no backup."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millstream.log.log import Topic, TopicPartition
from millstream.log.policy import policy_of
from millstream.log.snapshot import LogContents
from millstream.log.stored import Segment, Stored
from millstream.model.errors import CorruptionError
from millstream.places.sealed import sealed, unsealed

FORMAT = 1
_FILE = re.compile(r"segments/[0-9a-f]*/[0-9]+-[0-9]+-[0-9]+-[0-9]+\.parquet")
SegmentKey = tuple[int, int, int]
"""The id of a topic, the number and the generation of a segment."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A file that holds the rows of a segment."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One backup: of the database with the id `database`, taken at a time in ms."""

    database: str
    taken: int
    contents: LogContents
    files: Mapping[SegmentKey, SegmentFile]


def key_of(stored: Stored, segment: Segment) -> SegmentKey:
    """The key of a segment's file."""
    return stored.id, segment.number, segment.generation


def encode_manifest(manifest: Manifest) -> bytes:
    """The content of a manifest's file."""
    contents = manifest.contents
    body = {
        "database": manifest.database,
        "taken": manifest.taken,
        "next_topic": contents.next_topic,
        "openings": contents.openings,
        "topics": [_topic(stored, manifest.files) for stored in contents.topics],
        "positions": [
            [group, topic, part, at]
            for group, positions in sorted(contents.positions.items())
            for (topic, part), at in sorted(positions.items())
        ],
        "writers": sorted(map(list, contents.epochs.items())),
    }
    return sealed("backup", FORMAT, body)


def _topic(stored: Stored, files: Mapping[SegmentKey, SegmentFile]) -> dict[str, Any]:
    topic = stored.topic
    return {
        "id": stored.id,
        "name": topic.name,
        "partitions": topic.partitions,
        "replicas": topic.replicas,
        "config": dict(topic.config),
        "numbered": topic.numbered,
        "starts": list(stored.starts),
        "ends": list(stored.ends),
        "segments": [
            {
                "number": segment.number,
                "generation": segment.generation,
                "first": list(segment.first),
                "headers": segment.headers,
                "cleaned": segment.cleaned,
                **_file(files[key_of(stored, segment)]),
            }
            for segment in stored.segments
        ],
    }


def _file(file: SegmentFile) -> dict[str, Any]:
    return {"file": file.name, "rows": file.rows, "bytes": file.bytes, "sha256": file.sha256}


def decode_manifest(name: str, content: bytes) -> Manifest:
    """The backup that a file describes. Raises CorruptionError naming the file if it is damaged,
    UnavailableError (E-VERSION) if a later version wrote it."""
    try:
        hint = "Restore it with the version that wrote it."
        return _decoded(unsealed("backup", FORMAT, name, content, hint=hint))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(name, str(error)) from error


def damaged(name: str, detail: str) -> CorruptionError:
    """The error of a file of a backup that is not as it was written."""
    return CorruptionError(
        f"The file '{name}' of the backup is damaged.",
        detail=detail,
        hint="Restore another backup of this place: `--at` chooses it.",
        code="E-BACKUP-DAMAGED",
    )


def _decoded(body: dict[str, Any]) -> Manifest:
    files: dict[SegmentKey, SegmentFile] = {}
    topics = tuple(_decoded_topic(topic, files) for topic in body["topics"])
    positions: dict[str, dict[TopicPartition, int]] = {}
    for group, topic, part, at in body["positions"]:
        positions.setdefault(group, {})[topic, part] = at
    epochs = dict(body["writers"])
    contents = LogContents(body["next_topic"], body["openings"], topics, positions, epochs)
    return Manifest(body["database"], body["taken"], contents, files)


def _decoded_topic(topic: dict[str, Any], files: dict[SegmentKey, SegmentFile]) -> Stored:
    segments = []
    for each in topic["segments"]:
        segment = Segment(
            each["number"],
            tuple(each["first"]),
            headers=each["headers"],
            generation=each["generation"],
            cleaned=each["cleaned"],
        )
        if not _FILE.fullmatch(each["file"]):
            raise ValueError(f"{each['file']!r} is no file of a backup")
        file = SegmentFile(each["file"], each["rows"], each["bytes"], each["sha256"])
        files[topic["id"], segment.number, segment.generation] = file
        segments.append(segment)
    config = dict(topic["config"])
    made = Topic(
        topic["name"],
        topic["partitions"],
        topic["replicas"],
        config,
        str(topic["id"]),
        topic["numbered"],
    )
    starts, ends = tuple(topic["starts"]), tuple(topic["ends"])
    return Stored(topic["id"], made, tuple(segments), starts, ends, policy_of(config))
