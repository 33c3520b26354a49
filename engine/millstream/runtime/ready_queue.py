"""Knows which queries have work: those whose inputs have news, and those whose time has come.

Nothing polls. A query that has nothing to do is not looked at until there are news that it has
subscribed to, someone wakes it, or the time that its last step asked for comes. Like the rest
of the runtime this has no lock, clock or thread; `scheduler/scheduler.py` puts a lock around it.

Where only this process reads a log, a query with few records to process may *linger*: while nobody
waits for its results it lets more records come, so that one run and one commit serve all of them.

A query whose commit is due is released as such and waits for a commit round, which commits all of
them together: at once if there is nothing else to do, otherwise soon.

News may come while a thread works on a query, after it has read and before it releases the query.
They must not be lost: they are noted (`told`), and the query is ready again when it is released.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, count, islice

from millstream.log.watchers import News
from millstream.runtime.spec import Step, Subscription

WINDOW = 16
"""How many of the queries that are ready, the oldest of each lane, are compared with each other.
Comparing all would cost the square of their number when one record is read by a thousand queries.
"""

ROUND_MAX = 128
"""The most queries of one commit round. The others can be processed meanwhile."""
ROUND_WAIT_MS = 25
"""How long a commit that is due waits for others, if there are brief runs to do meanwhile."""

Readers = dict[str, dict[str, None]]
"""The queries that have subscribed to a name."""
Lane = tuple[bool, int, bool]
"""Whether its time has come (a commit, mostly), the priority, and whether it calls functions in
Python."""


@dataclass(slots=True)
class Entry:
    """The state of one query. Times are in ms."""

    subscription: Subscription
    taken: bool = False
    told: bool = False
    """Whether there were news since its last step began."""
    settled: bool = False
    """Whether it had processed and committed everything when it was released, without news since.
    """
    urgent: bool = False
    """Whether it was woken for another reason than that a topic has grown: it must not linger."""
    lane: Lane | None = None
    """Where it is ready; None if it is not."""
    timer: int = 0
    """The number of its valid entry in the heap of times; others are ignored."""
    at: int = 0
    """The time of that entry."""
    wake_at: int | None = None
    """The time that its last step asked for."""
    free_since: int = 0
    throttled_until: int = 0
    """Until then other queries that are ready go first."""


@dataclass(slots=True)
class ReadyQueue:
    """The queries of one instance. Queries that are unknown (removed meanwhile) are ignored."""

    entries: dict[str, Entry] = field(default_factory=dict)
    _of_growth: Readers = field(default_factory=dict)
    _of_change: Readers = field(default_factory=dict)
    _lanes: dict[Lane, dict[str, None]] = field(default_factory=dict)
    _throttled: dict[str, None] = field(default_factory=dict)
    """Those that are not ready only because they are throttled."""
    _lingering: dict[str, None] = field(default_factory=dict)
    _due: dict[str, int] = field(default_factory=dict)
    """Those that wait for a commit round, and since when."""
    _in_round: bool = False
    _times: list[tuple[int, int, str]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _busy: int = 0
    _unsettled: int = 0

    def add(self, query_id: str, subscription: Subscription, now: int) -> None:
        """Add a query, which is ready."""
        entry = self.entries[query_id] = Entry(subscription, free_since=now)
        self._unsettled += 1
        for readers, names in self._indexes(subscription):
            for name in names:
                readers.setdefault(name, {})[query_id] = None
        self._ready(query_id, entry)

    def remove(self, query_id: str) -> None:
        """Remove a query that no thread works on."""
        entry = self.entries.pop(query_id, None)
        if entry is None:
            return
        self._not_ready(query_id, entry)
        self._unsettled -= not entry.settled
        for readers, names in self._indexes(entry.subscription):
            for name in names:
                del readers[name][query_id]
                if not readers[name]:
                    del readers[name]

    def synchronise(self, subscriptions: Mapping[str, Subscription], now: int) -> None:
        """Add and remove queries, so that these are left. One that a thread works on stays as it is
        until the call after its release."""
        for query_id, entry in tuple(self.entries.items()):
            if subscriptions.get(query_id) is not entry.subscription and not entry.taken:
                self.remove(query_id)
        for query_id, subscription in subscriptions.items():
            if query_id not in self.entries:
                self.add(query_id, subscription, now)

    def _indexes(self, subscription: Subscription) -> Iterable[tuple[Readers, frozenset[str]]]:
        yield self._of_growth, subscription.grown
        yield self._of_change, subscription.changed

    # ---- what makes a query ready ------------------------------------------------------------

    def tell(self, news: News) -> None:
        """Make those ready that have subscribed to one of the names. The order between the names
        does not matter, that between the queries that read one is the one of their creation."""
        for name in sorted(news.grown):
            for query_id in self._of_growth.get(name, ()):
                self._told(query_id, self.entries[query_id])
        for name in sorted(news.changed):
            for query_id in self._of_change.get(name, ()):
                self.wake(query_id)

    def wake(self, query_id: str) -> None:
        """Make a query ready; it must not linger."""
        entry = self.entries.get(query_id)
        if entry is not None:
            entry.urgent = True
            self._told(query_id, entry)

    def _told(self, query_id: str, entry: Entry) -> None:
        entry.told = True
        self._settle(entry, settled=False)
        elsewhere = entry.taken or query_id in self._throttled or query_id in self._due
        if not elsewhere and entry.lane is None:
            self._ready(query_id, entry)

    def wake_all(self) -> None:
        """Make all queries ready."""
        for query_id in self.entries:
            self.wake(query_id)

    def wake_unsettled(self) -> None:
        """Make those ready that may have something to do or to commit: all but those that are
        settled until they are told of news."""
        for query_id, entry in self.entries.items():
            if entry.timer or not entry.settled:
                self.wake(query_id)

    @property
    def settled(self) -> bool:
        """Whether all queries are settled."""
        return not self._unsettled

    def fire(self, now: int) -> None:
        """Make those ready whose time has come."""
        while self._times and self._times[0][0] <= now:
            _, number, query_id = heapq.heappop(self._times)
            entry = self.entries.get(query_id)
            if entry is None or entry.timer != number or entry.taken:
                continue
            due = query_id not in self._throttled
            self._not_ready(query_id, entry)
            self._ready(query_id, entry, due=due)

    def next_at(self) -> int | None:
        """The next time at which a query becomes ready; None: only news make one ready."""
        while self._times:
            at, number, query_id = self._times[0]
            entry = self.entries.get(query_id)
            if entry is not None and entry.timer == number and not entry.taken:
                return at
            heapq.heappop(self._times)
        return None

    # ---- lingering ---------------------------------------------------------------------------

    def linger(self, query_id: str, now: int, limit_ms: int) -> bool:
        """Let a query that is ready wait for more records, for `limit_ms` since it was released or
        until its own time comes. False if it must be taken: it was released longer ago, its time
        has come, or it was woken."""
        entry = self.entries[query_id]
        until = entry.free_since + limit_ms
        if entry.wake_at is not None:
            until = min(until, entry.wake_at)
        if entry.lane is None or entry.urgent or now >= until:
            return False
        timer = entry.timer
        self._not_ready(query_id, entry)
        self._lingering[query_id] = None
        if timer and entry.at == until:
            entry.timer = timer
        else:
            self._at(query_id, entry, until)
        return True

    @property
    def lingering(self) -> tuple[str, ...]:
        """The queries that linger."""
        return tuple(self._lingering)

    def unsettled(self, query_ids: Iterable[str]) -> bool:
        """Whether one of these has something to do or to commit."""
        entries = (self.entries.get(query_id) for query_id in query_ids)
        return any(entry is not None and not entry.settled for entry in entries)

    # ---- taking and releasing ----------------------------------------------------------------

    def candidates(self, *, functions: bool | None = None) -> list[str]:
        """Those to choose from, the oldest of each lane. Throttled ones only when nothing else is
        ready and no query is being worked on. `functions`: only those that call functions in
        Python, or only the others."""
        if self._lanes:
            lanes = self._lanes.items()
            oldest = [islice(each, WINDOW) for lane, each in lanes if functions in (None, lane[2])]
            return list(chain.from_iterable(oldest))
        wanted = (
            query_id
            for query_id in self._throttled
            if functions in (None, self.entries[query_id].subscription.functions)
        )
        return [] if self._busy else list(islice(wanted, WINDOW))

    @property
    def ready(self) -> bool:
        """Whether there is anything to take."""
        lanes = bool(self._lanes) or bool(self._throttled and not self._busy)
        return lanes or (bool(self._due) and not self._in_round)

    @property
    def functions_ready(self) -> bool:
        """Whether there may be a query to take that calls functions in Python."""
        return any(lane[2] for lane in self._lanes) or bool(self._throttled and not self._busy)

    @property
    def length(self) -> int:
        """The number of queries that are ready, or wait for a commit round."""
        return len(self._throttled) + len(self._due) + sum(map(len, self._lanes.values()))

    def round(self, now: int, *, others: bool, without: Container[str] = ()) -> list[str]:
        """The queries to commit together now, the oldest first: none while a round is under way, or
        while there are `others` to run briefly, which may join it."""
        if self._in_round:
            return []
        due = [query_id for query_id in self._due if query_id not in without]
        waited = now - self._due[due[0]] if due else 0
        if others and waited < ROUND_WAIT_MS and len(due) < ROUND_MAX:
            return []
        return due[:ROUND_MAX]

    def take_round(self, query_ids: Iterable[str]) -> None:
        """Note that a thread commits these queries, which must not be taken."""
        self._in_round = True
        for query_id in query_ids:
            self.take(query_id)

    def end_round(self) -> None:
        """Note that all queries of a round are released."""
        self._in_round = False

    def take(self, query_id: str) -> None:
        """Note that a thread works on the query, which must not be taken."""
        entry = self.entries[query_id]
        assert not entry.taken
        self._not_ready(query_id, entry)
        entry.taken = True
        self._busy += 1

    def begin(self, query_id: str) -> None:
        """Note that a step of a taken query begins, which sees everything told so far. Needs no
        lock: news come after the records they tell of."""
        entry = self.entries[query_id]
        entry.told = entry.urgent = False

    def release(
        self,
        query_id: str,
        now: int,
        step: Step,
        *,
        committed: bool,
        rest_ms: int = 0,
    ) -> None:
        """Release a query after its last `step`. `committed`: its pending work was committed after
        it. `rest_ms`: how long it leaves the time to others."""
        entry = self.entries[query_id]
        entry.taken = False
        self._busy -= 1
        entry.free_since, entry.wake_at = now, step.wake_at
        entry.throttled_until = max(entry.throttled_until, now + rest_ms)
        if step.due:
            self._settle(entry, settled=False)
            self._due[query_id] = now
            return
        idle = not (entry.told or step.progress or step.awaiting)
        self._settle(entry, settled=idle and (committed or step.wake_at is None))
        more = entry.told or step.progress
        if more and entry.throttled_until > now:
            self._throttled[query_id] = None
            self._at(query_id, entry, entry.throttled_until)
        elif more:
            self._ready(query_id, entry)
        elif step.wake_at is not None:
            self._at(query_id, entry, max(step.wake_at, entry.throttled_until))

    def _settle(self, entry: Entry, *, settled: bool) -> None:
        self._unsettled += entry.settled - settled
        entry.settled = settled

    def _ready(self, query_id: str, entry: Entry, *, due: bool = False) -> None:
        self._lingering.pop(query_id, None)
        entry.lane = (due, entry.subscription.priority, entry.subscription.functions)
        self._lanes.setdefault(entry.lane, {})[query_id] = None

    def _not_ready(self, query_id: str, entry: Entry) -> None:
        entry.timer = 0
        self._lingering.pop(query_id, None)
        self._throttled.pop(query_id, None)
        self._due.pop(query_id, None)
        if entry.lane is not None:
            lane = self._lanes[entry.lane]
            del lane[query_id]
            if not lane:
                del self._lanes[entry.lane]
            entry.lane = None

    def _at(self, query_id: str, entry: Entry, at: int) -> None:
        entry.timer, entry.at = next(self._numbers), at
        heapq.heappush(self._times, (at, entry.timer, query_id))
