"""What an instance says of itself to the others of its service, and what follows from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

VERSION = 1


@dataclass(frozen=True, slots=True)
class Held:
    """The partitions of one query whose state is on an instance.

    `active`: owned and ready to be read. `standby`: followed, with the records by which they lag.
    `restoring`: owned but not ready, with the percentage that is there.
    """

    active: frozenset[int] = frozenset()
    standby: Mapping[int, int] = field(default_factory=dict)
    restoring: Mapping[int, int] = field(default_factory=dict)


NOTHING = Held()


@dataclass(frozen=True, slots=True)
class InstanceMetadata:
    """An instance as it last described itself.

    `instance` is the name that it keeps through restarts, `incarnation` that of one start.
    `address` is host:port of its exchange, "" where it has none. `writers`: the identities that
    its transactions are written by. `host`: "name:port" of its HTTP server, "" where it has none.
    `states`: what it does of each query, by the names of `QueryState`. `at`: when it said so, by
    its own steady clock (ms), which tells it how far it has heard of what was said since.
    """

    instance: str
    incarnation: str
    address: str = ""
    queries: Mapping[str, Held] = field(default_factory=dict)
    writers: tuple[str, ...] = ()
    at: int = 0
    host: str = ""
    states: Mapping[str, str] = field(default_factory=dict)

    def held(self, query_id: str) -> Held:
        """What it holds of a query."""
        return self.queries.get(query_id, NOTHING)


@dataclass(frozen=True, slots=True)
class PeerView:
    """The newest word of an incarnation: heard `at` (ms of our clock), `offset` of the first that
    we heard. `since` says from which offset on it has claimed each (query, partition) without a
    break."""

    presence: InstanceMetadata
    at: int
    offset: int
    since: Mapping[tuple[str, int], int] = field(default_factory=dict)


def encoded(presence: InstanceMetadata) -> bytes:
    """A presence as the value of a record."""
    queries = {
        query_id: {
            "active": sorted(held.active),
            "standby": {str(p): lag for p, lag in sorted(held.standby.items())},
            "restoring": {str(p): percent for p, percent in sorted(held.restoring.items())},
        }
        for query_id, held in sorted(presence.queries.items())
    }
    entry = {
        "version": VERSION,
        "instance": presence.instance,
        "incarnation": presence.incarnation,
        "address": presence.address,
        "queries": queries,
        "writers": list(presence.writers),
        "at": presence.at,
        "host": presence.host,
        "states": dict(sorted(presence.states.items())),
    }
    return json.dumps(entry).encode()


def decoded(value: bytes) -> InstanceMetadata | None:
    """The presence in a record; None for one that cannot be read, as a newer version may write."""
    try:
        entry = json.loads(value)
        return InstanceMetadata(
            str(entry["instance"]),
            str(entry["incarnation"]),
            str(entry["address"]),
            {str(query_id): _held(held) for query_id, held in entry["queries"].items()},
            tuple(str(writer) for writer in entry["writers"]),
            int(entry["at"]),
            str(entry.get("host", "")),
            {str(query_id): str(state) for query_id, state in entry.get("states", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _held(entry: Mapping[str, Any]) -> Held:
    standby = {int(p): int(lag) for p, lag in entry["standby"].items()}
    restoring = {int(p): int(percent) for p, percent in entry["restoring"].items()}
    return Held(frozenset(int(p) for p in entry["active"]), standby, restoring)


def sighted(before: PeerView | None, presence: InstanceMetadata, at: int, offset: int) -> PeerView:
    """What is known of an incarnation after one more record of it."""
    known = {} if before is None else before.since
    claims = (
        (query_id, partition)
        for query_id, held in presence.queries.items()
        for partition in (*held.active, *held.restoring)
    )
    since = {claim: known.get(claim, offset) for claim in claims}
    return PeerView(presence, at, offset if before is None else before.offset, since)


def owner(live: Iterable[PeerView], query_id: str, partition: int) -> InstanceMetadata | None:
    """Who owns a partition of a query, ready or not: of several who say so, the one who began to
    say it last."""
    claim = (query_id, partition)
    claiming = [sighting for sighting in live if claim in sighting.since]
    newest = max(claiming, key=lambda sighting: sighting.since[claim], default=None)
    return None if newest is None else newest.presence


def followers(
    live: Iterable[PeerView], query_id: str, partition: int
) -> tuple[InstanceMetadata, ...]:
    """Who follows a partition of a query, the least behind first."""
    found = [s.presence for s in live if partition in s.presence.held(query_id).standby]
    return tuple(sorted(found, key=lambda p: (p.held(query_id).standby[partition], p.incarnation)))


def standby_of(
    query_id: str, partition: int, replicas: int, live: Collection[str], owner: str | None
) -> tuple[str, ...]:
    """The instances that are to follow a partition, of those that are `live` without its owner:
    the same wherever it is asked, and almost all the same when an instance comes or goes."""
    return rendezvous(f"{query_id}/{partition}", set(live) - {owner or ""})[:replicas]


def rendezvous(what: str, among: Iterable[str]) -> tuple[str, ...]:
    """The names in an order that depends on `what` and on each name alone."""

    def weight(name: str) -> tuple[bytes, str]:
        return hashlib.blake2b(f"{what}/{name}".encode(), digest_size=8).digest(), name

    return tuple(sorted(among, key=weight, reverse=True))
