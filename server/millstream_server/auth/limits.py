"""Limits on the concurrent use of the server, by one principal and by all together."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from millstream_server.auth.principal import ANONYMOUS, Principal, Refusal, too_many

PRINCIPALS_MAX = 10_000


class Work(Enum):
    """Kinds of requests, each with its own limits."""

    QUERY = "query"
    STATEMENT = "statement"
    INSERT = "insert"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class WorkLimit:
    """`at_a_time`: concurrent requests of all principals; `rate`: requests per second of one
    principal, with bursts of the same size; None for the rate of requests only."""

    at_a_time: int
    rate: float


@dataclass(frozen=True, slots=True)
class Quota:
    """The bounds of each kind of work, and those of one principal over all kinds."""

    works: Mapping[Work, WorkLimit]
    each_at_a_time: int
    each_rate: float


@dataclass(slots=True)
class Bucket:
    """A token bucket that holds at most the tokens of one second."""

    tokens: float
    at: float

    def wait(self, rate: float, now: float) -> float:
        """Seconds until there is a token; 0 if there is one."""
        most = max(1.0, rate)
        self.tokens = min(most, self.tokens + max(0.0, now - self.at) * rate)
        self.at = now
        return 0.0 if self.tokens >= 1 else (1 - self.tokens) / rate


@dataclass(slots=True)
class _Usage:
    at_a_time: int = 0
    buckets: dict[Work | None, Bucket] = field(default_factory=dict)


class Limits:
    """The current use of all principals. Thread-safe, never blocks."""

    def __init__(self, quota: Quota, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._quota, self._clock = quota, clock
        self._lock = threading.Lock()
        self._running = dict.fromkeys(Work, 0)
        self._usages: OrderedDict[str, _Usage] = OrderedDict()

    def running(self, work: Work) -> int:
        """The number of running requests of a kind."""
        with self._lock:
            return self._running[work]

    def admit(self, principal: Principal, work: Work) -> Refusal | None:
        """Returns a 429 if a limit is reached; otherwise the caller must `release` when the work is
        done."""
        with self._lock:
            usage = self._usage(principal.name)
            if usage is None:
                return too_many("Too many principals at a time.", 1.0)
            refusal = self._refusal(usage, work, each=principal is not ANONYMOUS)
            if refusal is None:
                usage.at_a_time += 1
                self._running[work] += 1
            return refusal

    def release(self, principal: Principal, work: Work) -> None:
        """Note the end of admitted work."""
        with self._lock:
            # Active principals are not evicted.
            self._usages[principal.name].at_a_time -= 1
            self._running[work] -= 1

    def _refusal(self, usage: _Usage, work: Work, *, each: bool) -> Refusal | None:
        """`each`: the limits of one principal apply too. ANONYMOUS is shared by all."""
        bounds, now = self._quota.works[work], self._clock()
        if self._running[work] >= bounds.at_a_time:
            most = bounds.at_a_time
            return too_many(f"The limit of {work.value} requests is reached: {most}/{most}.", 1.0)
        if not each:
            return None
        if usage.at_a_time >= self._quota.each_at_a_time:
            most = self._quota.each_at_a_time
            return too_many(f"Your limit of requests at a time is reached: {most}/{most}.", 1.0)
        rates = {None: self._quota.each_rate, work: bounds.rate}
        buckets = [
            (usage.buckets.setdefault(key, Bucket(max(1.0, rate), now)), rate)
            for key, rate in rates.items()
        ]
        wait = max(bucket.wait(rate, now) for bucket, rate in buckets)
        if wait > 0:
            return too_many(f"Your {work.value} requests come too fast.", wait)
        for bucket, _ in buckets:
            bucket.tokens -= 1
        return None

    def _usage(self, name: str) -> _Usage | None:
        """The usage of a principal. Idle ones are evicted first."""
        usage = self._usages.get(name)
        if usage is None:
            if len(self._usages) >= PRINCIPALS_MAX:
                idle = next((n for n, u in self._usages.items() if not u.at_a_time), None)
                if idle is None:
                    return None
                del self._usages[idle]
            usage = self._usages[name] = _Usage()
        self._usages.move_to_end(name)
        return usage
