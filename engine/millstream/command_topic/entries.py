"""The entries of the command topic, commands and leases, and their serialisation as JSON.

Each command carries the hash of the command before it, which reveals removed, changed and inserted
commands. On a shared log, an instance writes a lease before it prepares commands, with a record for
each of them: its offset is a unique number for this attempt.
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
"""The newest version: that of leases with a quiesced query."""
_LEASE_VERSION = 2
"""The version of leases without a quiesced query, and of commands written under a lease."""
_OFFSET_NUMBERED_VERSION = 1
"""The version of commands numbered by their offset: those of a log of one process."""


@dataclass(frozen=True, slots=True)
class Command:
    """A statement and the properties of its session."""

    text: str
    properties: Mapping[str, str] = field(default_factory=dict)
    deletes: tuple[str, str] | None = None
    """Name and id of the topic to delete after the command is written."""
    topics: Mapping[str, tuple[Topic, ...]] = field(default_factory=dict)
    """The topics of the queries that the statement starts, by query id, without their settings."""
    number: int = -1
    """The number of the query that the statement starts. A record without a number is numbered by
    its offset."""
    issued_at: int = 0
    """When the statement was issued, in ms. A record without it has the time of its record."""


@dataclass(frozen=True, slots=True)
class QuiesceRequest:
    """Asks all instances to stop a query and leave its group, from a lease until the next entry.

    `requester`: the incarnation that holds the lease. `seconds`: the time after which the other
    instances may assume that it is dead.
    """

    query_id: str
    requester: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the command topic: a command, or a lease.

    `command`: None for a lease. `lease`: the token of a lease, "" for a command. `previous`: the
    hash of the command before, None in old records. `quiesce`: a lease's request to quiesce a
    query.
    """

    offset: int
    value: bytes
    command: Command | None
    lease: str = ""
    previous: str | None = None
    quiesce: QuiesceRequest | None = None


def command_hash(value: bytes) -> str:
    """The hash of a command's value, which the next command carries as `previous`."""
    return hashlib.sha256(value).hexdigest()[:32]


def command_fields(command: Command) -> dict[str, Any]:
    """The JSON fields of a command, without its position in the topic."""
    entry: dict[str, Any] = {"text": command.text, "properties": dict(command.properties)}
    if command.number >= 0:
        entry["number"] = command.number
    if command.issued_at > 0:
        entry["issued"] = command.issued_at
    if command.deletes is not None:
        entry["deletes"] = command.deletes
    if command.topics:
        entry["topics"] = {
            query_id: {topic.name: (topic.id, topic.partitions) for topic in topics}
            for query_id, topics in command.topics.items()
        }
    return entry


def decode_command(entry: Mapping[str, Any], number: int, issued_at: int = 0) -> Command:
    """Deserialise a command from its JSON fields; `number` and `issued_at` are the defaults."""
    deletes = entry.get("deletes")
    topics = {
        query_id: tuple(Topic(name, item[1], id=item[0]) for name, item in listed.items())
        for query_id, listed in entry.get("topics", {}).items()
    }
    return Command(
        entry["text"],
        entry["properties"],
        None if deletes is None else (deletes[0], deletes[1]),
        topics,
        entry.get("number", number),
        entry.get("issued", issued_at),
    )


def encode_command(command: Command, previous: str) -> bytes:
    """Serialise a command."""
    version = _OFFSET_NUMBERED_VERSION if command.number < 0 else _LEASE_VERSION
    fields = {"version": version, **command_fields(command), "previous": previous}
    return json.dumps(fields).encode()


def numbered_token(token: str, count: int) -> str:
    """The token of a record before the last one of a lease; see `lease_of`."""
    return f"{token}.{count}"


def lease_of(token: str) -> str:
    """The token of the lease that a record belongs to. Of several records only the last one has
    that token itself: behind it, there is nothing of the lease to read."""
    return token.partition(".")[0]


def encode_lease(token: str, quiesce: QuiesceRequest | None = None) -> bytes:
    """Serialise a lease."""
    if quiesce is None:
        return json.dumps({"version": _LEASE_VERSION, "turn": token}).encode()
    fields = {"query": quiesce.query_id, "by": quiesce.requester, "seconds": quiesce.seconds}
    return json.dumps({"version": VERSION, "turn": token, "hold": fields}).encode()


def decode_entry(offset: int, value: bytes, timestamp: int) -> Entry:
    """Deserialise an entry; `timestamp` is that of its record. Raises CorruptionError if it is
    damaged, with code E-CMD-VERSION if a newer version of the engine has written it."""
    try:
        entry = json.loads(value)
        version = entry["version"]
        if version > VERSION:
            raise _newer(offset, version)
        if "turn" in entry:
            request = entry.get("hold")
            quiesce = request and QuiesceRequest(
                request["query"], request["by"], request["seconds"]
            )
            return Entry(offset, value, None, entry["turn"], quiesce=quiesce)
        command = decode_command(entry, offset, timestamp)
        return Entry(offset, value, command, previous=entry.get("previous"))
    except (ValueError, KeyError, TypeError) as failure:
        raise CorruptionError(f"command {offset} cannot be read back") from failure


def _newer(offset: int, version: int) -> CorruptionError:
    return CorruptionError(
        f"command {offset} was written by a newer version ({version} > {VERSION})",
        hint="open the file with the version that wrote it, or a later one",
        code="E-CMD-VERSION",
    )
