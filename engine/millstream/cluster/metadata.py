"""The metadata that an instance publishes to its peers, and the owners and standbys of partitions
that follow from it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

VERSION = 1


@dataclass(frozen=True, slots=True)
class HostedPartitions:
    """The partitions of one query whose state is on an instance.

    `active`: partitions of open tasks, ready to be read. `standby`: the lag in records of each
    standby task. `restoring`: the restored percentage of each partition that is not ready yet.
    `positions`: how far the state of each of them is on the changelogs, together, and state that is
    there and not used. A change of these alone is not published before the next heartbeat is due.
    """

    active: frozenset[int] = frozenset()
    standby: Mapping[int, int] = field(default_factory=dict)
    restoring: Mapping[int, int] = field(default_factory=dict)
    positions: Mapping[int, int] = field(default_factory=dict, compare=False)


NO_PARTITIONS = HostedPartitions()


@dataclass(frozen=True, slots=True)
class InstanceMetadata:
    """The metadata of an instance, as last published.

    `instance`: its name, which survives restarts. `incarnation`: the id of one start. `address`:
    host:port of its exchange, "" if it has none. `queries`: the partitions that it hosts, by query
    id. `writers`: the identities of its transactional writers. `host`: "name:port" of its HTTP
    server, "" if it has none. `rack`: where it runs, "" if that was not configured. `states`: the
    state of each query there, as names of `QueryState`.
    `published_at`: the time on its own monotonic clock (ms), by which it recognises how much of the
    topic it has read.
    """

    instance: str
    incarnation: str
    address: str = ""
    queries: Mapping[str, HostedPartitions] = field(default_factory=dict)
    writers: tuple[str, ...] = ()
    published_at: int = 0
    host: str = ""
    states: Mapping[str, str] = field(default_factory=dict)
    rack: str = ""

    def hosted(self, query_id: str) -> HostedPartitions:
        """The partitions of a query that it hosts."""
        return self.queries.get(query_id, NO_PARTITIONS)


@dataclass(frozen=True, slots=True)
class PeerView:
    """The newest metadata of an incarnation, as this instance has read it.

    `seen_at`: when it was read, on this instance's monotonic clock (ms). `first_offset`: the offset
    of the first record of the incarnation. `owned_since`: the offset since which it has owned each
    (query, partition) without interruption.
    """

    metadata: InstanceMetadata
    seen_at: int
    first_offset: int
    owned_since: Mapping[tuple[str, int], int] = field(default_factory=dict)


def encode_metadata(metadata: InstanceMetadata) -> bytes:
    """Serialise metadata as the value of a record."""
    queries = {
        query_id: {
            "active": sorted(held.active),
            "standby": {str(p): lag for p, lag in sorted(held.standby.items())},
            "restoring": {str(p): percent for p, percent in sorted(held.restoring.items())},
            "positions": {str(p): position for p, position in sorted(held.positions.items())},
        }
        for query_id, held in sorted(metadata.queries.items())
    }
    entry = {
        "version": VERSION,
        "instance": metadata.instance,
        "incarnation": metadata.incarnation,
        "address": metadata.address,
        "queries": queries,
        "writers": list(metadata.writers),
        "at": metadata.published_at,
        "host": metadata.host,
        "states": dict(sorted(metadata.states.items())),
        "rack": metadata.rack,
    }
    return json.dumps(entry).encode()


def decode_metadata(value: bytes) -> InstanceMetadata | None:
    """Deserialise the metadata in a record; None if it is invalid, as one of a newer version may
    be."""
    try:
        entry = json.loads(value)
        return InstanceMetadata(
            str(entry["instance"]),
            str(entry["incarnation"]),
            str(entry["address"]),
            {
                str(query_id): _decode_partitions(held)
                for query_id, held in entry["queries"].items()
            },
            tuple(str(writer) for writer in entry["writers"]),
            int(entry["at"]),
            str(entry.get("host", "")),
            {str(query_id): str(state) for query_id, state in entry.get("states", {}).items()},
            str(entry.get("rack", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _decode_partitions(entry: Mapping[str, Any]) -> HostedPartitions:
    standby = {int(p): int(lag) for p, lag in entry["standby"].items()}
    restoring = {int(p): int(percent) for p, percent in entry["restoring"].items()}
    positions = {int(p): int(position) for p, position in entry.get("positions", {}).items()}
    return HostedPartitions(
        frozenset(int(p) for p in entry["active"]), standby, restoring, positions
    )


def updated_view(
    before: PeerView | None, metadata: InstanceMetadata, seen_at: int, offset: int
) -> PeerView:
    """The view of an incarnation after one more record of it, at `offset`."""
    known = {} if before is None else before.owned_since
    owned = (
        (query_id, partition)
        for query_id, held in metadata.queries.items()
        for partition in (*held.active, *held.restoring)
    )
    owned_since = {key: known.get(key, offset) for key in owned}
    first_offset = offset if before is None else before.first_offset
    return PeerView(metadata, seen_at, first_offset, owned_since)


def owner(live: Iterable[PeerView], query_id: str, partition: int) -> InstanceMetadata | None:
    """The owner of a partition of a query, ready or not. Of several instances that claim it, the
    most recent one counts."""
    key = (query_id, partition)
    owners = [view for view in live if key in view.owned_since]
    newest = max(owners, key=lambda view: view.owned_since[key], default=None)
    return None if newest is None else newest.metadata


def standbys(
    live: Iterable[PeerView], query_id: str, partition: int
) -> tuple[InstanceMetadata, ...]:
    """The instances with a standby task of a partition, the least lag first."""
    peers = (view.metadata for view in live)
    following = [peer for peer in peers if partition in peer.hosted(query_id).standby]
    return tuple(
        sorted(following, key=lambda p: (p.hosted(query_id).standby[partition], p.incarnation))
    )


def assigned_standbys(
    query_id: str,
    partition: int,
    replicas: int,
    live: Collection[str],
    owner: str | None,
    racks: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """The instances that must host a standby task of a partition: `replicas` of the `live` ones
    without its owner, in racks in which it is not yet as long as there are any. Every instance
    computes the same assignment, and a change of membership moves few standbys. `racks`: by
    instance."""
    left = list(rendezvous(f"{query_id}/{partition}", set(live) - {owner or ""}))
    rack_of = racks or {}
    used = Counter([rack_of.get(owner, "")] if owner else ())
    chosen: list[str] = []
    while left and len(chosen) < replicas:
        found = min(left, key=lambda name: used[rack_of.get(name, "")])
        used[rack_of.get(found, "")] += 1
        left.remove(found)
        chosen.append(found)
    return tuple(chosen)


def rendezvous(what: str, among: Iterable[str]) -> tuple[str, ...]:
    """Rendezvous hashing: orders the names by a hash of `what` and each name."""

    def weight(name: str) -> tuple[bytes, str]:
        return hashlib.blake2b(f"{what}/{name}".encode(), digest_size=8).digest(), name

    return tuple(sorted(among, key=weight, reverse=True))
