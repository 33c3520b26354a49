"""The command log: every statement that changed the catalog, in order, on a topic of its own.

Opening a database replays it; the offset of a command numbers the query it starts.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from millstream.log.log import Appended, Log, Topic, Writer
from millstream.model.batch import raw_batch
from millstream.model.errors import CorruptionError

VERSION = 1
READ_MAX = 10_000
_IDENTITY = "millstream.database"


@dataclass(frozen=True, slots=True)
class Command:
    """A statement with the session properties it was given under."""

    text: str
    properties: Mapping[str, str] = field(default_factory=dict)
    deletes: tuple[str, str] | None = None
    """Name and id of the topic that the statement deletes after it is written."""
    topics: Mapping[str, tuple[Topic, ...]] = field(default_factory=dict)
    """The topics of the queries that the statement starts, without their settings."""


class Write(Protocol):
    """Puts the statement that is being applied on the command log."""

    def __call__(self, *, deleting: Topic | None = None) -> None:
        """To be called before what cannot be undone; `deleting` is a topic that is going to be
        deleted then."""


class CommandLog:
    """Appends commands and reads them all back."""

    def __init__(self, log: Log[pa.Table], topic: str) -> None:
        self._log = log
        self._topic = topic
        database_id(log, topic)
        self._writer: Writer[pa.Table] = log.writer(topic)

    @property
    def next_offset(self) -> int:
        """The offset the next command will get."""
        return self._log.end_offset(self._topic, 0)

    def append(self, command: Command, now: int) -> None:
        """Write a command; durable when this returns."""
        entry: dict[str, Any] = {"version": VERSION, "text": command.text}
        entry["properties"] = dict(command.properties)
        if command.deletes is not None:
            entry["deletes"] = command.deletes
        if command.topics:
            entry["topics"] = {
                query_id: {topic.name: (topic.id, topic.partitions) for topic in topics}
                for query_id, topics in command.topics.items()
            }
        value = json.dumps(entry).encode()
        batch = raw_batch([(None, value, now)])
        self._writer.append([Appended(self._topic, 0, batch, 1, len(value))])

    def read(self) -> Iterator[tuple[int, Command]]:
        """All commands with their offsets."""
        position = self._log.start_offset(self._topic, 0)
        while True:
            fetched = self._log.read(self._topic, 0, position, READ_MAX)
            for row in fetched.batch.to_pylist():
                yield row["offset"], _command(row)
            if fetched.end:
                return
            position = fetched.next_offset

    def close(self) -> None:
        """Release the writer; idempotent."""
        self._writer.close()


def database_id(log: Log[pa.Table], topic: str) -> str:
    """What tells one log from every other; drawn when its command topic is made, here if need be.

    A state database that was made for another log must not be used with this one.
    """
    found = log.topic(topic)
    if found is None:
        config = {"cleanup.policy": "delete", _IDENTITY: uuid.uuid4().hex}
        found = Topic(topic, 1, config=config)
        log.create_topic(found)
    return found.config.get(_IDENTITY, "")


def _command(row: dict[str, Any]) -> Command:
    try:
        entry = json.loads(row["value"])
        version, text, properties = entry["version"], entry["text"], entry["properties"]
    except (ValueError, KeyError, TypeError) as failure:
        raise CorruptionError(f"command {row['offset']} cannot be read back") from failure
    if version > VERSION:
        raise CorruptionError(
            f"command {row['offset']} was written by a newer version ({version} > {VERSION})",
            hint="open the file with the version that wrote it, or a later one",
            code="E-CMD-VERSION",
        )
    deletes = entry.get("deletes")
    topics = {
        query_id: tuple(Topic(name, item[1], id=item[0]) for name, item in noted.items())
        for query_id, noted in entry.get("topics", {}).items()
    }
    return Command(text, properties, None if deletes is None else (deletes[0], deletes[1]), topics)
