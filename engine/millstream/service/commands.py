"""The command log: every statement that changed the catalog, in order, on a topic of its own.

Opening a database replays it; the offset of a command numbers the query it starts.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

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
        value = json.dumps(
            {"version": VERSION, "text": command.text, "properties": dict(command.properties)}
        ).encode()
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
    return Command(text, properties)
