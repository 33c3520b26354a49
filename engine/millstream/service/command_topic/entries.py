"""What is written on the command topic: commands and turns, as JSON and back.

Each command carries the hash of the one before it, so that one which was removed, changed or put in
between is noticed. A turn is what an instance writes before it prepares a command on a log that
other instances write to as well: its offset is a number that no other attempt has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.log.log import Topic
from millstream.model.errors import CorruptionError

VERSION = 3
_TURN = 2
"""The version of turns, and of what is written in one."""
_ALONE = 1
"""The version of commands whose number is their offset: those of a log of one process."""


@dataclass(frozen=True, slots=True)
class Command:
    """A statement with the session properties it was given under."""

    text: str
    properties: Mapping[str, str] = field(default_factory=dict)
    deletes: tuple[str, str] | None = None
    """Name and id of the topic that the statement deletes after it is written."""
    topics: Mapping[str, tuple[Topic, ...]] = field(default_factory=dict)
    """The topics of the queries that the statement starts, without their settings."""
    number: int = -1
    """It numbers the query that the statement starts. Where none is written, it is the offset."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A query that is to stand still from a turn on until the next entry: nobody may be in its
    group. `by`: the incarnation of whoever has the turn; he may be taken for dead after so many
    `seconds`."""

    query_id: str
    by: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the command topic. `command` is None where it is a turn, `turn` empty where it
    is a command; `previous` is the hash of the command before, None in old ones."""

    offset: int
    value: bytes
    command: Command | None
    turn: str = ""
    previous: str | None = None
    hold: Hold | None = None


def chained(value: bytes) -> str:
    """What the command after one of this value carries as `previous`."""
    return hashlib.sha256(value).hexdigest()[:32]


def command_fields(command: Command) -> dict[str, Any]:
    """A command as JSON knows it, without its place in the topic."""
    entry: dict[str, Any] = {"text": command.text, "properties": dict(command.properties)}
    if command.number >= 0:
        entry["number"] = command.number
    if command.deletes is not None:
        entry["deletes"] = command.deletes
    if command.topics:
        entry["topics"] = {
            query_id: {topic.name: (topic.id, topic.partitions) for topic in topics}
            for query_id, topics in command.topics.items()
        }
    return entry


def command_of(entry: Mapping[str, Any], number: int) -> Command:
    """A command from its fields; `number` is for one that has none."""
    deletes = entry.get("deletes")
    topics = {
        query_id: tuple(Topic(name, item[1], id=item[0]) for name, item in noted.items())
        for query_id, noted in entry.get("topics", {}).items()
    }
    return Command(
        entry["text"],
        entry["properties"],
        None if deletes is None else (deletes[0], deletes[1]),
        topics,
        entry.get("number", number),
    )


def command_value(command: Command, previous: str) -> bytes:
    """A command as it is written."""
    version = _ALONE if command.number < 0 else _TURN
    fields = {"version": version, **command_fields(command), "previous": previous}
    return json.dumps(fields).encode()


def turn_value(token: str, hold: Hold | None = None) -> bytes:
    """A turn as it is written."""
    if hold is None:
        return json.dumps({"version": _TURN, "turn": token}).encode()
    fields = {"query": hold.query_id, "by": hold.by, "seconds": hold.seconds}
    return json.dumps({"version": VERSION, "turn": token, "hold": fields}).encode()


def entry_of(offset: int, value: bytes) -> Entry:
    """Read one back; CorruptionError where that cannot be done (code E-CMD-VERSION: by this
    version of the engine)."""
    try:
        entry = json.loads(value)
        version = entry["version"]
        if version > VERSION:
            raise _newer(offset, version)
        if "turn" in entry:
            held = entry.get("hold")
            hold = held and Hold(held["query"], held["by"], held["seconds"])
            return Entry(offset, value, None, entry["turn"], hold=hold)
        command = command_of(entry, offset)
        return Entry(offset, value, command, previous=entry.get("previous"))
    except (ValueError, KeyError, TypeError) as failure:
        raise CorruptionError(f"command {offset} cannot be read back") from failure


def _newer(offset: int, version: int) -> CorruptionError:
    return CorruptionError(
        f"command {offset} was written by a newer version ({version} > {VERSION})",
        hint="open the file with the version that wrote it, or a later one",
        code="E-CMD-VERSION",
    )
