"""Where the rows of a table are read, when several instances share its query.

A partition is read at its owner; where that is away or not ready, at a copy that may be read; else
the query fails. It never leaves a partition out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from millstream.model.errors import UnavailableError
from millstream.service.cluster.metadata import Held, InstanceMetadata, PeerView, followers, owner
from millstream.service.cluster.partition_read import NOT_READY, PartitionRead, not_ready
from millstream.service.cluster.steps import ProgressByQuery, Send, Step

Fetch = Callable[[str, PartitionRead, int], pa.Table]
"""Asks the instance at an address, and waits for so many ms; UnavailableError when that fails."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The rows that came from elsewhere, and the partitions that are to be read here."""

    here: frozenset[int]
    rows: tuple[pa.Table, ...]


class Routing(Protocol):
    """What an engine needs to know of where state is; without one all of it is here."""

    def gather(self, ask: PartitionRead, timeout_ms: int) -> Gathered:
        """The rows of other instances; UnavailableError (E-NOT-READY) unless all partitions are
        had, here or from there."""

    def addresses(self, query_ids: Collection[str]) -> Sequence[str]:
        """The addresses of all instances that have tasks of these queries, "" for this one, which
        is always among them. Their order is the same wherever it is asked. UnavailableError
        (E-NOT-READY) where one of them cannot be reached."""

    def send(self, address: str, snapshot_id: str, step: Step, seconds: float) -> ProgressByQuery:
        """See `steps.Send`."""

    def fetch(self, address: str, ask: PartitionRead, timeout_ms: int) -> pa.Table:
        """See `Fetch`."""

    def check_here(self, query_id: str, partitions: frozenset[int], lag_max: int) -> None:
        """UnavailableError (E-NOT-READY) unless these may all be read here now."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Who is to be asked for which partitions, each one by one instance."""

    here: frozenset[int]
    elsewhere: Mapping[str, frozenset[int]]
    """By incarnation."""
    presences: Mapping[str, InstanceMetadata]


def assign_reads(
    ask: PartitionRead, own: Held, live: Sequence[PeerView], failed: frozenset[str] = frozenset()
) -> Shares:
    """Divide the partitions of `ask` among this instance, which holds `own`, and the others.

    `failed`: the incarnations that were asked in vain. Raises UnavailableError (E-NOT-READY).
    """
    here: set[int] = set()
    elsewhere: dict[str, set[int]] = {}
    presences: dict[str, InstanceMetadata] = {}
    for partition in sorted(ask.partitions):
        found = _reader(ask, partition, own, live, failed)
        if found is None:
            here.add(partition)
        else:
            elsewhere.setdefault(found.incarnation, set()).add(partition)
            presences[found.incarnation] = found
    asked = {incarnation: frozenset(parts) for incarnation, parts in elsewhere.items()}
    return Shares(frozenset(here), asked, presences)


def _reader(
    ask: PartitionRead, partition: int, own: Held, live: Sequence[PeerView], failed: frozenset[str]
) -> InstanceMetadata | None:
    """Who is asked for a partition; None for this instance itself."""
    if partition in own.active:
        return None
    owning = None if partition in own.restoring else owner(live, ask.query_id, partition)
    if owning is not None and partition in owning.held(ask.query_id).active:
        if _reachable(owning, failed):
            return owning
        why = "is held by an instance that does not answer"
    else:
        why = _why(own if owning is None else owning.held(ask.query_id), partition)
    lag = own.standby.get(partition)
    for follower in followers(live, ask.query_id, partition):
        behind = follower.held(ask.query_id).standby[partition]
        if lag is not None and lag <= behind:
            break
        if behind <= ask.lag_max and _reachable(follower, failed):
            return follower
    if lag is not None and lag <= ask.lag_max:
        return None
    raise not_ready(ask.query_id, partition, why)


def _reachable(presence: InstanceMetadata, failed: frozenset[str]) -> bool:
    return bool(presence.address) and presence.incarnation not in failed


def _why(held: Held, partition: int) -> str:
    percent = held.restoring.get(partition)
    return "is held by no instance" if percent is None else f"restoring {percent} %"


class Router:
    """Routes by what the peers say. Threads may share it: what it asks for is read as a whole."""

    def __init__(
        self,
        held: Callable[[str], Held],
        live: Callable[[], Sequence[PeerView]],
        fetch: Fetch,
        send: Send,
        incarnation: str,
    ) -> None:
        """`held`: what is on this instance of a query, at this moment; `live`: the other
        instances, as they last presented themselves. `incarnation`: of this instance."""
        self._held = held
        self._live = live
        self.fetch = fetch
        self.send = send
        self._incarnation = incarnation

    def gather(self, ask: PartitionRead, timeout_ms: int) -> Gathered:
        """See `Routing`. An instance that cannot answer is replaced by who has a copy."""
        live = self._live()
        left, here = ask.partitions, frozenset[int]()
        rows: list[pa.Table] = []
        failed: dict[str, UnavailableError] = {}
        while left:
            own = self._held(ask.query_id)
            try:
                shares = assign_reads(replace(ask, partitions=left), own, live, frozenset(failed))
            except UnavailableError as error:
                error.detail = "; ".join(e.message for e in failed.values() if e.code == NOT_READY)
                raise
            here |= shares.here
            left = frozenset()
            for incarnation, answer in self._asked(ask, shares, timeout_ms).items():
                if isinstance(answer, UnavailableError):
                    failed[incarnation] = answer
                    left |= shares.elsewhere[incarnation]
                else:
                    rows.append(answer)
        return Gathered(here, tuple(rows))

    def _asked(
        self, ask: PartitionRead, shares: Shares, timeout_ms: int
    ) -> dict[str, pa.Table | UnavailableError]:
        """The answers by incarnation, or why there was none."""

        def fetched(incarnation: str) -> pa.Table | UnavailableError:
            address = shares.presences[incarnation].address
            one = replace(ask, partitions=shares.elsewhere[incarnation])
            try:
                return self.fetch(address, one, timeout_ms)
            except UnavailableError as error:
                if error.code != NOT_READY:
                    logging.getLogger("millstream").debug(str(error).replace("\n", " "))
                return error

        names = list(shares.elsewhere)
        if len(names) < 2:
            return {name: fetched(name) for name in names}
        with ThreadPoolExecutor(len(names), "millstream-gather") as pool:
            return dict(zip(names, pool.map(fetched, names), strict=True))

    def addresses(self, query_ids: Collection[str]) -> tuple[str, ...]:
        """See `Routing`."""
        found = {self._incarnation: ""}
        for presence in (sighting.presence for sighting in self._live()):
            held = [presence.held(query_id) for query_id in query_ids]
            if any(one.active or one.restoring for one in held):
                if not presence.address:
                    raise UnavailableError(
                        f"{NOT_READY} instance {presence.instance} cannot be asked",
                        code=NOT_READY,
                    )
                found[presence.incarnation] = presence.address
        return tuple(found[name] for name in sorted(found))

    def check_here(self, query_id: str, partitions: frozenset[int], lag_max: int) -> None:
        """See `Routing`."""
        held = self._held(query_id)
        for partition in sorted(partitions - held.active):
            if held.standby.get(partition, lag_max + 1) > lag_max:
                raise not_ready(query_id, partition, _why(held, partition))
