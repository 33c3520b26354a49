"""Routes reads of a table to the instances that share its query.

A partition is read at its owner. If the owner is unreachable or not ready, the partition is read at
a standby, where the session allows that; else the query fails. No partition is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from millstream.cluster.metadata import (
    HostedPartitions,
    InstanceMetadata,
    PeerView,
    owner,
    standbys,
)
from millstream.cluster.partition_read import NOT_READY, PartitionRead, not_ready
from millstream.cluster.steps import ProgressByQuery, SendStep, SnapshotStep
from millstream.model.errors import UnavailableError

Fetch = Callable[[str, PartitionRead, int], pa.Table]
"""Fetches rows from the instance at an address, with a timeout in ms; raises UnavailableError."""


@dataclass(frozen=True, slots=True)
class GatheredRows:
    """The rows of other instances, and the partitions that the caller reads from local state."""

    local: frozenset[int]
    rows: tuple[pa.Table, ...]


class Routing(Protocol):
    """Locates state on the instances of a service. An engine without routing has all state."""

    def gather(self, request: PartitionRead, timeout_ms: int) -> GatheredRows:
        """Fetch the rows of other instances; UnavailableError (E-NOT-READY) unless every partition
        can be read, here or there."""

    def addresses(self, query_ids: Collection[str]) -> Sequence[str]:
        """The addresses of all instances with tasks of these queries, and "" for this instance.
        The order is the same on every instance. UnavailableError (E-NOT-READY) if one of them
        has no address."""

    def send(
        self, address: str, snapshot_id: str, step: SnapshotStep, seconds: float
    ) -> ProgressByQuery:
        """See `steps.SendStep`."""

    def fetch(self, address: str, request: PartitionRead, timeout_ms: int) -> pa.Table:
        """See `Fetch`."""

    def check_readable(self, query_id: str, partitions: frozenset[int], lag_max: int) -> None:
        """Raise UnavailableError (E-NOT-READY) unless local state can serve these partitions."""


@dataclass(frozen=True, slots=True)
class ReadAssignment:
    """The instance that reads each partition.

    `remote`: partitions by incarnation; `metadata`: that of these incarnations.
    """

    local: frozenset[int]
    remote: Mapping[str, frozenset[int]]
    metadata: Mapping[str, InstanceMetadata]


def assign_reads(
    request: PartitionRead,
    own: HostedPartitions,
    live: Sequence[PeerView],
    failed: frozenset[str] = frozenset(),
) -> ReadAssignment:
    """Assign the partitions of a request to this instance, which hosts `own`, and its peers.

    `failed`: incarnations that have not served an earlier attempt. Raises UnavailableError
    (E-NOT-READY).
    """
    local: set[int] = set()
    remote: dict[str, set[int]] = {}
    metadata: dict[str, InstanceMetadata] = {}
    for partition in sorted(request.partitions):
        chosen = _choose_instance(request, partition, own, live, failed)
        if chosen is None:
            local.add(partition)
        else:
            remote.setdefault(chosen.incarnation, set()).add(partition)
            metadata[chosen.incarnation] = chosen
    frozen = {incarnation: frozenset(partitions) for incarnation, partitions in remote.items()}
    return ReadAssignment(frozenset(local), frozen, metadata)


def _choose_instance(
    request: PartitionRead,
    partition: int,
    own: HostedPartitions,
    live: Sequence[PeerView],
    failed: frozenset[str],
) -> InstanceMetadata | None:
    """The instance that reads a partition; None for this instance itself."""
    if partition in own.active:
        return None
    peer = None if partition in own.restoring else owner(live, request.query_id, partition)
    if peer is not None and partition in peer.hosted(request.query_id).active:
        if _reachable(peer, failed):
            return peer
        why = "is held by an instance that does not answer"
    else:
        why = _reason(own if peer is None else peer.hosted(request.query_id), partition)
    lag = own.standby.get(partition)
    for standby in standbys(live, request.query_id, partition):
        its_lag = standby.hosted(request.query_id).standby[partition]
        if lag is not None and lag <= its_lag:
            break
        if its_lag <= request.lag_max and _reachable(standby, failed):
            return standby
    if lag is not None and lag <= request.lag_max:
        return None
    raise not_ready(request.query_id, partition, why)


def _reachable(metadata: InstanceMetadata, failed: frozenset[str]) -> bool:
    return bool(metadata.address) and metadata.incarnation not in failed


def _reason(hosted: HostedPartitions, partition: int) -> str:
    percent = hosted.restoring.get(partition)
    return "is held by no instance" if percent is None else f"restoring {percent} %"


class Router:
    """Routes by the metadata of the peers. Thread-safe: each method reads one snapshot of it."""

    def __init__(
        self,
        hosted: Callable[[str], HostedPartitions],
        live: Callable[[], Sequence[PeerView]],
        fetch: Fetch,
        send: SendStep,
        incarnation: str,
    ) -> None:
        """`hosted`: returns the current partitions of a query on this instance. `live`: returns
        the views of the live peers. `incarnation`: the id of this instance's start."""
        self._hosted = hosted
        self._live = live
        self.fetch = fetch
        self.send = send
        self._incarnation = incarnation

    def gather(self, request: PartitionRead, timeout_ms: int) -> GatheredRows:
        """See `Routing`. If an instance fails, its partitions are read at standbys."""
        live = self._live()
        left, local = request.partitions, frozenset[int]()
        rows: list[pa.Table] = []
        failed: dict[str, UnavailableError] = {}
        while left:
            own = self._hosted(request.query_id)
            try:
                assignment = assign_reads(
                    replace(request, partitions=left), own, live, frozenset(failed)
                )
            except UnavailableError as error:
                error.detail = "; ".join(e.message for e in failed.values() if e.code == NOT_READY)
                raise
            local |= assignment.local
            left = frozenset()
            for incarnation, result in self._fetch_all(request, assignment, timeout_ms).items():
                if isinstance(result, UnavailableError):
                    failed[incarnation] = result
                    left |= assignment.remote[incarnation]
                else:
                    rows.append(result)
        return GatheredRows(local, tuple(rows))

    def _fetch_all(
        self, request: PartitionRead, assignment: ReadAssignment, timeout_ms: int
    ) -> dict[str, pa.Table | UnavailableError]:
        """The rows, or the error, of each remote incarnation."""

        def fetch_from(incarnation: str) -> pa.Table | UnavailableError:
            address = assignment.metadata[incarnation].address
            part = replace(request, partitions=assignment.remote[incarnation])
            try:
                return self.fetch(address, part, timeout_ms)
            except UnavailableError as error:
                if error.code != NOT_READY:
                    logging.getLogger("millstream").debug(str(error).replace("\n", " "))
                return error

        names = list(assignment.remote)
        if len(names) < 2:
            return {name: fetch_from(name) for name in names}
        with ThreadPoolExecutor(len(names), "millstream-gather") as pool:
            return dict(zip(names, pool.map(fetch_from, names), strict=True))

    def addresses(self, query_ids: Collection[str]) -> tuple[str, ...]:
        """See `Routing`."""
        addresses = {self._incarnation: ""}
        for metadata in (view.metadata for view in self._live()):
            hosted = [metadata.hosted(query_id) for query_id in query_ids]
            if any(partitions.active or partitions.restoring for partitions in hosted):
                if not metadata.address:
                    raise UnavailableError(
                        f"{NOT_READY} instance {metadata.instance} cannot be asked",
                        code=NOT_READY,
                    )
                addresses[metadata.incarnation] = metadata.address
        return tuple(addresses[incarnation] for incarnation in sorted(addresses))

    def check_readable(self, query_id: str, partitions: frozenset[int], lag_max: int) -> None:
        """See `Routing`."""
        hosted = self._hosted(query_id)
        for partition in sorted(partitions - hosted.active):
            if hosted.standby.get(partition, lag_max + 1) > lag_max:
                raise not_ready(query_id, partition, _reason(hosted, partition))
