"""Snapshots of the command topic: the commands that still matter, so that a start does not
replay the past.

A snapshot is one record on a topic of its own. Before it is written its commands are tried in an
empty catalog: if they do not make the present one, all are kept instead. Whoever starts from one
checks the same, and reads the whole command topic where the catalog is another.
"""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from dataclasses import dataclass

from millstream.catalog.digest import catalog_digest
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.log.log import AS_THE_CLUSTER, Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import ConflictError
from millstream.service import orphans
from millstream.service.command_topic.commands import CommandTopicLease
from millstream.service.command_topic.entries import Command, command_fields, command_of
from millstream.service.command_topic.replay_state import Done
from millstream.service.command_topic.replaying import replayed
from millstream.service.engine import Engine

VERSION = 1
BYTES_MAX = 900_000
"""Brokers refuse larger records; whoever has so much replays everything."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`position` is the offset of the command topic from which to read on, `previous` the hash of
    the last command before it, `digest` that of the catalog."""

    position: int
    previous: str
    digest: str
    commands: tuple[Command, ...]


def topic_of(engine: Engine) -> str:
    """The name of the topic for snapshots."""
    return f"{engine.settings.internal_prefix}snapshot"


def digest_of(engine: Engine) -> str:
    """Of the engine's catalog: instances of a service that agree have the same."""
    return _digest(engine.definitions)


def _digest(definitions: CatalogSnapshot) -> str:
    return catalog_digest(definitions.catalog, definitions.paused)


def save(engine: Engine, turn: CommandTopicLease) -> None:
    """Write a snapshot of what the command topic has brought so far. The engine must have read
    everything before the turn; LostTurnError where the turn is over."""
    ledger, kept = engine.ledger, _verified(engine)
    ledger.unsaved = 0
    if kept is None:
        return
    snapshot = Snapshot(
        engine.commands.next_offset,
        ledger.previous,
        digest_of(engine),
        tuple(done.command for done in kept),
    )
    value = _written(snapshot)
    if len(value) <= BYTES_MAX:
        orphans.finish_last(engine)
        topic = topic_of(engine)
        _make(engine, topic)
        outdated = engine.log.end_offset(topic, 0)
        turn.writer.append(
            [Appended(topic, 0, raw_batch([(None, value, engine.clock())]), 1, len(value))]
        )
        engine.log.truncate(topic, 0, outdated)
    ledger.done = kept


def newest(engine: Engine) -> Snapshot | None:
    """The last snapshot that was written, if there is any that this version understands."""
    topic = topic_of(engine)
    if engine.log.topic(topic) is None:
        return None
    position, found = engine.log.start_offset(topic, 0), None
    while True:
        fetched = engine.log.read(topic, 0, position, 100)
        for row in fetched.batch.to_pylist():
            found = _read(row["value"]) or found
        if fetched.end:
            return found
        position = fetched.next_offset


def _verified(engine: Engine) -> list[Done] | None:
    """The fewest commands that are known to make the catalog anew."""
    wanted = digest_of(engine)
    for kept in (engine.ledger.needed(), engine.ledger.done):
        made, failed = engine.definitions.cleared(), False
        for done in kept:
            found = replayed(done.command, made, engine.replay_environment)
            made, failed = found.after, failed or found.error is not None
        if not failed and _digest(made) == wanted:
            return list(kept)
    return None


def _make(engine: Engine, topic: str) -> None:
    if engine.log.topic(topic) is None:
        config = {"cleanup.policy": "delete", "retention.ms": "-1"}
        with suppress(ConflictError):
            engine.log.create_topic(Topic(topic, 1, AS_THE_CLUSTER, config))


def _written(snapshot: Snapshot) -> bytes:
    plain = {
        "version": VERSION,
        "position": snapshot.position,
        "previous": snapshot.previous,
        "digest": snapshot.digest,
        "commands": [command_fields(command) for command in snapshot.commands],
    }
    return zlib.compress(json.dumps(plain).encode())


def _read(value: bytes) -> Snapshot | None:
    try:
        plain = json.loads(zlib.decompress(value))
        if plain["version"] > VERSION:
            return None
        commands = tuple(command_of(fields, fields["number"]) for fields in plain["commands"])
        return Snapshot(plain["position"], plain["previous"], plain["digest"], commands)
    except (zlib.error, ValueError, KeyError, TypeError):
        return None
