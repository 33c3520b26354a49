"""Restoration: replays changelogs into state, for tasks that will start here and for standbys.

Like `Runtime` it has no thread, clock, randomness or I/O of its own: the driver calls `step(now)`.
Other threads may, during a step, set what is wanted and take what is ready (`prepare`, `standby`).
These calls synchronise by `lock`, which no step holds while it reads or writes. `add_query`,
`remove_query` and `close` may not be called during a step.

A task is held either here or by the query runner that processes it, never by both
(`TaskOwnership`); it moves when no open transaction contains any of its state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Generic

from millstream.log.log import Batch, Log, Reader
from millstream.model.errors import ConflictError, UnavailableError
from millstream.runtime.following import Followed, Follower, FollowSpec, Moved, Progress, Role
from millstream.runtime.spec import RuntimeSettings, Step

__all__ = ["FollowSpec", "Progress", "Restoration", "Role"]

_OPENED_TOGETHER = 16
"""So many partitions of a query begin to be followed in one step. Those that need no replaying are
then granted together, because each grant opens all tasks of the query again."""


def _ignore(_query_id: str) -> None:
    return None


class Restoration(Generic[Batch]):
    """Implements `ports.Restorer`; a query that fails never stops another one."""

    def __init__(
        self,
        log: Log[Batch],
        settings: RuntimeSettings | None = None,
        *,
        on_ready: Callable[[str], None] = _ignore,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        """`on_ready` is called within a step when `prepare` can grant partitions of a query; it may
        not call back. `lock`: a real one where one thread steps and others call."""
        self._log = log
        self._settings = settings or RuntimeSettings()
        self._on_ready = on_ready
        self._lock = lock or nullcontext()
        self._queries: dict[str, Followed[Batch]] = {}
        self._reader: Reader[Batch] | None = None
        self.followed: frozenset[str] = frozenset()
        """The changelogs that were followed when the last step ended without progress."""
        self._dropped = False
        self._lags_at = 0
        self._left_asked = False
        """Whether `left` was called."""

    # ---- what others say and ask --------------------------------------------------------------

    def add_query(self, query_id: str, sub_topologies: tuple[FollowSpec[Batch], ...]) -> None:
        """Register the sub-topologies of a query that have state. Takes ownership of the replicas.
        Raises ConflictError if the id is taken."""
        if query_id in self._queries:
            raise ConflictError(f"The state of query {query_id} is followed already")
        with self._lock:
            self._queries[query_id] = Followed(query_id, sub_topologies)

    def remove_query(self, query_id: str) -> None:
        """Remove a query and close its replicas; its state stays. No error when absent."""
        with self._lock:
            query = self._queries.pop(query_id, None)
        if query is not None:
            self._dropped = True
            query.close()

    def prepare(self, query_id: str, wanted: frozenset[int]) -> frozenset[int]:
        """See `ports.Restorer`. Grants all of them where the query is not registered."""
        with self._lock:
            query = self._queries.get(query_id)
            if query is None:
                return wanted
            query.ownership = query.ownership.given(query.ownership.processing - wanted)
            query.starting = wanted - query.ownership.processing
            if query.failed:
                query.grant(query.starting)
            else:
                query.grant(frozenset(p for p in query.starting if not query.has_state(p)))
            return query.ownership.processing

    def standby(self, query_id: str, partitions: frozenset[int]) -> None:
        """Keep the state of these near the end of their changelogs as long as they are not
        processed here. Replaces the earlier standbys. Retries after a failure."""
        with self._lock:
            query = self._queries.get(query_id)
            if query is not None:
                query.standby, query.failed = partitions, False

    def partitions(self, query_id: str) -> int:
        """How many partitions of a query have state; 0 where it has none or is not registered."""
        query = self._queries.get(query_id)
        return 0 if query is None else query.partitions

    def left(self, query_id: str) -> dict[int, int]:
        """The positions of state that is here and not used, by partition. It is read by the first
        step after the first call."""
        self._left_asked = True
        query = self._queries.get(query_id)
        kept = {} if query is None else query.kept
        return {partition: position for partition, position in kept.items() if position}

    def ready(self, query_id: str) -> frozenset[int]:
        """The followed partitions whose state is nearly up to date."""
        query = self._queries.get(query_id)
        return frozenset() if query is None else query.ready(self._settings.restore_tolerance)

    def progress(self, now: int, query_id: str | None = None) -> tuple[Progress, ...]:
        """The progress of everything that is followed, or of one query."""
        known = self._queries
        queries = tuple(known.values()) if query_id is None else (known.get(query_id),)
        return tuple(
            follower.progress(query.query_id, now)
            for query in queries
            if query is not None
            for follower in tuple(query.followers.values())
        )

    def restored(self) -> dict[str, int]:
        """How many records were replayed for each query."""
        return {query.query_id: query.restored for query in tuple(self._queries.values())}

    def retry_errors(self) -> dict[str, str]:
        """The errors that currently keep queries from being followed."""
        queries = tuple(self._queries.values())
        return {
            query.query_id: query.retry_state.error for query in queries if query.retry_state.error
        }

    def close(self) -> None:
        """Release everything; idempotent."""
        for query_id in tuple(self._queries):
            self.remove_query(query_id)
        self._close_reader()

    # ---- one slice of work --------------------------------------------------------------------

    def step(self, now: int) -> Step:
        """Do one bounded piece of work: open a partition, hand a partition over, or replay one
        read. `now` is in ms and never goes back."""
        queries = [query for query in self._queries.values() if now >= query.retry_state.retry_at]
        for query in queries:
            if self._guarded(query, now, self._arrange) is Moved.ON:
                return Step(True, now)
        self._ask_lags(queries, now)
        awaiting = False
        for query, follower in _furthest_behind_first(queries):
            if follower.task not in query.followers:
                continue
            moved = self._advance(query, follower, now)
            if moved is Moved.ON:
                return Step(True, now)
            awaiting |= moved is Moved.AWAITING
        self._tidy(queries)
        self.followed = frozenset(
            follower.spec.changelog
            for query in self._queries.values()
            for follower in query.followers.values()
        )
        return Step(False, self._wake_at(now), awaiting)

    def _guarded(
        self,
        query: Followed[Batch],
        now: int,
        action: Callable[[Followed[Batch], int], Moved],
    ) -> Moved:
        """Run `action`; any error concerns this query alone."""
        try:
            return action(query, now)
        except UnavailableError as error:
            query.retry_state.wait(now, error, self._settings)
            self._let_go(query, failed=False)
        except Exception as error:
            query.retry_state.explain(error)
            self._let_go(query, failed=True)
        return Moved.NOT

    def _let_go(self, query: Followed[Batch], *, failed: bool) -> None:
        """Discard what is not in the store. After a failure, the query runner gets the state as it
        is: its own replay then meets the error and reports it."""
        with suppress(Exception):
            query.discard()
        self._dropped = True
        with self._lock:
            query.ownership = query.ownership.stopped(query.ownership.following)
            query.failed = failed
            granted = query.grant(query.starting) if failed else False
        if granted:
            self._on_ready(query.query_id)

    def _arrange(self, query: Followed[Batch], now: int) -> Moved:
        """Apply what is wanted: stop following, begin to follow (some at a time), grant."""
        with self._lock:
            gone = query.ownership.following - query.wanted
            query.ownership = query.ownership.stopped(gone)
            starting = query.starting
            missing = query.wanted - query.ownership.following
            opening = frozenset(sorted(missing & starting or missing)[:_OPENED_TOGETHER])
            query.ownership = query.ownership.followed(opening)
            query.forget_kept(opening)
        if gone:
            query.drop(gone)
            self._dropped = True
        if opening:
            query.open(opening, starting, self._log, now)
        query.assign(starting, self._log, now)
        granted = self._grant(query)
        cleared = self._clear_left(query, now) or self._read_left(query)
        return Moved.ON if gone or opening or granted or cleared else Moved.NOT

    def _clear_left(self, query: Followed[Batch], now: int) -> bool:
        """Remove the state of a partition that has been unused for long; returns whether there was
        one. It is held meanwhile, so a task that needs it then gets it empty."""
        with self._lock:
            query.note_left(now)
            due = [
                p for p, since in query.left.items() if now >= since + self._settings.state_kept_ms
            ]
            held = frozenset(due[:1])
            query.ownership = query.ownership.followed(held)
        for partition in held:
            query.clear(partition)
        with self._lock:
            query.ownership = query.ownership.stopped(held)
            query.cleared |= held
            query.forget_kept(held)
        return bool(held)

    def _read_left(self, query: Followed[Batch]) -> bool:
        """Read how far the state of some unused partitions is, if anyone asks for it; returns
        whether there were any. They are held meanwhile."""
        if not self._left_asked:
            return False
        with self._lock:
            unread = sorted(query.left.keys() - query.kept.keys() - query.ownership.processing)
            held = frozenset(unread[:_OPENED_TOGETHER]) - query.starting
            query.ownership = query.ownership.followed(held)
        found = {partition: query.stored_position(partition) for partition in sorted(held)}
        with self._lock:
            query.ownership = query.ownership.stopped(held)
            query.kept = query.kept | found
        return bool(held)

    def _grant(self, query: Followed[Batch]) -> bool:
        """Grant what is nearly up to date to the query runners; returns whether there was any."""
        ready = query.ready(self._settings.restore_tolerance)
        with self._lock:
            ready &= query.starting
            query.ownership = query.ownership.stopped(ready)
            query.drop(ready)
            granted = query.grant(ready)
        if granted:
            self._dropped = True
            self._on_ready(query.query_id)
        return granted

    def _advance(self, query: Followed[Batch], follower: Follower[Batch], now: int) -> Moved:
        if self._reader is None:
            self._reader = self._log.reader(alone=True)
        reader = self._reader

        def replay(query: Followed[Batch], _now: int) -> Moved:
            before = follower.position
            moved = follower.advance(self._log, reader, self._settings)
            query.restored += max(0, follower.position - before)
            return moved

        moved = self._guarded(query, now, replay)
        if moved is Moved.ON:
            query.retry_state.over()
            query.retry_state.retry_now()
        return moved

    def _ask_lags(self, queries: Sequence[Followed[Batch]], now: int) -> None:
        """Measure periodically how far the standbys are behind."""
        if now < self._lags_at:
            return
        self._lags_at = now + self._settings.lag_interval_ms
        standbys = [
            follower
            for query in queries
            for follower in query.followers.values()
            if follower.role is Role.STANDBY
        ]
        if not standbys:
            return
        with suppress(UnavailableError):
            ends = self._log.end_offsets([follower.topic_partition for follower in standbys])
            for follower in standbys:
                follower.target = ends.get(follower.topic_partition, follower.target)

    def _tidy(self, queries: Sequence[Followed[Batch]]) -> None:
        """Nothing is left to do: release what was fetched of partitions that are no longer
        followed."""
        followers = [follower for query in queries for follower in query.followers.values()]
        starting = any(follower.role is Role.STARTING for follower in followers)
        if self._dropped and not starting:
            self._close_reader()
            self._dropped = False

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _wake_at(self, now: int) -> int | None:
        """When to look again: at the changelogs, or at a query that waits for its retry."""
        queries = self._queries.values()
        retries = [
            query.retry_state.retry_at for query in queries if query.retry_state.retry_at > now
        ]
        following = any(query.followers for query in queries)
        poll = self._settings.idle_poll_ms
        polls = [now + poll] if following and poll is not None else []
        kept = self._settings.state_kept_ms
        clearings = [since + kept for query in queries for since in query.left.values()]
        return min(retries + polls + clearings, default=None)


def _furthest_behind_first(
    queries: Sequence[Followed[Batch]],
) -> list[tuple[Followed[Batch], Follower[Batch]]]:
    """All followers: tasks to start before standbys."""
    found = [(query, follower) for query in queries for follower in query.followers.values()]
    found.sort(key=lambda pair: (pair[1].role is Role.STANDBY, pair[1].position - pair[1].target))
    return found
