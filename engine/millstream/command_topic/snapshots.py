"""Snapshots of the command topic: the commands that are still needed, so that a start need not
replay the whole topic.

A snapshot is one record on a topic of its own. If it leaves commands out, the others are replayed
in an empty catalog before it is written: if they do not make the current catalog, the snapshot
contains all commands. An instance that starts from a snapshot checks the same, and otherwise
replays the whole topic.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from millstream.catalog.catalog import QueryKind, QueryRecord, TerminatedQuery
from millstream.catalog.digest import catalog_digest
from millstream.command_topic.command_topic import CommandTopic
from millstream.command_topic.commands import CommandTopicLease
from millstream.command_topic.entries import Command, command_fields, decode_command
from millstream.command_topic.replay_state import AppliedCommand
from millstream.command_topic.replaying import finish_last, plan_command
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.log.log import AS_THE_CLUSTER, Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import ConflictError

VERSION = 1
BYTES_MAX = 900_000
"""No larger snapshot is written, because brokers refuse large records. The next start replays
more of the command topic then."""


@dataclass(frozen=True, slots=True)
class CommandSnapshot:
    """A snapshot. `position`: the offset of the command topic from which a replay continues;
    `previous`: the hash of the last command before it; `digest`: the digest of the catalog;
    `terminated`: the terminated queries of the catalog, whose commands need not be among
    `commands`."""

    position: int
    previous: str
    digest: str
    commands: tuple[Command, ...]
    terminated: tuple[TerminatedQuery, ...]


def topic_name(command_topic: CommandTopic) -> str:
    """The name of the topic of snapshots."""
    return f"{command_topic.registry.settings.internal_prefix}snapshot"


def digest_of(command_topic: CommandTopic) -> str:
    """The digest of the engine's catalog: equal on all instances with the same catalog."""
    return _digest(command_topic.registry.definitions)


def _digest(definitions: CatalogSnapshot) -> str:
    return catalog_digest(definitions.catalog, definitions.paused)


def save(command_topic: CommandTopic, lease: CommandTopicLease) -> None:
    """Write a snapshot of the commands so far. The engine must have read everything before the
    lease. Raises FencedError if the lease is lost."""
    replay_state, commands = command_topic.state, _verified_commands(command_topic)
    replay_state.unsaved = 0
    if commands is None:
        return
    snapshot = CommandSnapshot(
        command_topic.log.next_offset,
        replay_state.previous,
        digest_of(command_topic),
        tuple(applied.command for applied in commands),
        command_topic.registry.catalog.terminated,
    )
    value = _encode(snapshot)
    if len(value) <= BYTES_MAX:
        finish_last(command_topic)
        topic = topic_name(command_topic)
        _create_topic(command_topic, topic)
        outdated = command_topic.registry.log.end_offset(topic, 0)
        lease.writer.append(
            [Appended(topic, 0, raw_batch([(None, value, command_topic.clock())]), 1, len(value))]
        )
        command_topic.registry.log.truncate(topic, 0, outdated)
    replay_state.applied = commands


def newest(command_topic: CommandTopic) -> CommandSnapshot | None:
    """The newest snapshot that this version can read; None if there is none."""
    topic = topic_name(command_topic)
    if command_topic.registry.log.topic(topic) is None:
        return None
    position, snapshot = command_topic.registry.log.start_offset(topic, 0), None
    while True:
        fetched = command_topic.registry.log.read(topic, 0, position, 100)
        for row in fetched.batch.to_pylist():
            snapshot = _decode(row["value"]) or snapshot
        if fetched.end:
            return snapshot
        position = fetched.next_offset


def _verified_commands(command_topic: CommandTopic) -> list[AppliedCommand] | None:
    """The fewest commands that are verified to make the current catalog; None if a replay of all
    commands does not."""
    needed, everything = command_topic.state.needed(), command_topic.state.applied
    if len(needed) == len(everything):
        # The catalog was made by these very commands. Replaying them at each snapshot would make
        # a script of a thousand statements cost the square of its length.
        return needed
    expected = digest_of(command_topic)
    terminated = command_topic.registry.catalog.terminated
    for commands in (needed, everything):
        definitions, failed = command_topic.registry.definitions.cleared(), False
        for applied in commands:
            result = plan_command(
                applied.command, definitions, command_topic.registry.replay_environment
            )
            definitions, failed = result.after, failed or result.error is not None
        if not failed and _digest(definitions.with_terminated(terminated)) == expected:
            return list(commands)
    return None


def _create_topic(command_topic: CommandTopic, topic: str) -> None:
    if command_topic.registry.log.topic(topic) is None:
        config = {"cleanup.policy": "delete", "retention.ms": "-1"}
        with suppress(ConflictError):
            command_topic.registry.log.create_topic(Topic(topic, 1, AS_THE_CLUSTER, config))


def _encode(snapshot: CommandSnapshot) -> bytes:
    fields = {
        "version": VERSION,
        "position": snapshot.position,
        "previous": snapshot.previous,
        "digest": snapshot.digest,
        "commands": [command_fields(command) for command in snapshot.commands],
        "terminated": [_terminated_fields(ended) for ended in snapshot.terminated],
    }
    return zlib.compress(json.dumps(fields).encode())


def _decode(value: bytes) -> CommandSnapshot | None:
    try:
        fields = json.loads(zlib.decompress(value))
        if fields["version"] > VERSION:
            return None
        commands = tuple(decode_command(item, item["number"]) for item in fields["commands"])
        # A snapshot of an older version has none, and its digest does not match anyway.
        terminated = tuple(map(_decode_terminated, fields.get("terminated", ())))
        return CommandSnapshot(
            fields["position"], fields["previous"], fields["digest"], commands, terminated
        )
    except (zlib.error, ValueError, KeyError, TypeError):
        return None


def _terminated_fields(ended: TerminatedQuery) -> dict[str, Any]:
    record = ended.record
    return {
        "id": record.id,
        "text": record.statement,
        "kind": record.kind.value,
        "sources": record.sources,
        "sink": record.sink,
        "properties": dict(record.properties),
        "ended": ended.ended_at,
    }


def _decode_terminated(fields: Mapping[str, Any]) -> TerminatedQuery:
    record = QueryRecord(
        fields["id"],
        fields["text"],
        QueryKind(fields["kind"]),
        tuple(fields["sources"]),
        fields["sink"],
        fields["properties"],
    )
    return TerminatedQuery(record, fields["ended"])
