"""Samples the counters of queries over the last half minute, and computes rates from them.

The runtime counts but has no clock. `Sampler` records its counters by the clock that it is given,
once a second in a thread or at each call of `sample`. Everything else is a function of samples.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from millstream.metrics.figures import Restoration
from millstream.runtime.spec import QueryStatus

WINDOW_NS = 30_000_000_000
PERIOD_SECONDS = 1.0
SECOND_NS = 1_000_000_000
WHOLE = -1
"""Stands for the whole query in place of a sub-topology."""

Subject = tuple[str, int]
"""A query and one of its sub-topologies."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The counters of one subject at the time of a sample."""

    records_in: int = 0
    records_out: int = 0
    restored: int = 0
    to_restore: int = 0
    replay: int = 0
    """`to_restore` when the current restoration began."""


Samples = tuple["Sample", ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """The counters of all subjects at one time, in monotonic nanoseconds."""

    at: int
    counts: Mapping[Subject, Counts]


class Sampler:
    """The samples of one engine."""

    def __init__(
        self,
        poll: Callable[[Collection[str]], Sequence[QueryStatus]],
        ticks: Callable[[], int],
        activity: Callable[[], Mapping[str, object]],
    ) -> None:
        """`poll` returns the statuses of queries without waiting, `activity` something for each
        query that changes with its counters: those without news are not polled. Takes an empty
        sample, so that work before the first real sample counts as well."""
        self._poll = poll
        self._ticks = ticks
        self._activity = activity
        self._known: Mapping[str, object] = {}
        """The activity of the last sample."""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._samples: Samples = (Sample(ticks(), {}),)

    def sample(self) -> None:
        """Record the counters now."""
        with self._lock:
            # Before the counters, so that what changes meanwhile is polled the next time.
            activity = self._activity()
            new = [name for name, seen in activity.items() if self._known.get(name) != seen]
            sample = self._with_new(activity, new)
            self._known = activity
            self._samples = within_window((*self._samples, sample))

    def _with_new(self, queries: Collection[str], new: Collection[str]) -> Sample:
        """The last sample, with the counters of `new` as they are now."""
        last = self._samples[-1].counts
        if not new and len(queries) == len(self._known):
            return Sample(self._ticks(), last)
        kept = {subject: counts for subject, counts in last.items() if subject[0] in queries}
        return Sample(self._ticks(), kept | counts_of(self._poll(new), last))

    def now(self, statuses: Sequence[QueryStatus]) -> Samples:
        """The samples up to now; `statuses` are the current statuses."""
        with self._lock:
            return within_window((*self._samples, self._next(statuses)))

    def _next(self, statuses: Sequence[QueryStatus]) -> Sample:
        return Sample(self._ticks(), counts_of(statuses, self._samples[-1].counts))

    def start(self) -> None:
        """Sample once a second, in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="millstream-metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; idempotent."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_SECONDS):
            try:
                self.sample()
            except Exception:
                # Only a gap in the metrics: the next second it tries again.
                logging.getLogger("millstream").exception("The queries' counters cannot be read")


def within_window(samples: Samples) -> Samples:
    """The samples of the window, and the last one before it, as the base of rates."""
    horizon = samples[-1].at - WINDOW_NS
    first = max((at for at, sample in enumerate(samples) if sample.at <= horizon), default=0)
    return samples[first:]


def counts_of(
    statuses: Sequence[QueryStatus], before: Mapping[Subject, Counts]
) -> dict[Subject, Counts]:
    """The counters of a sample. `before`: those of the previous sample."""
    counts = {}
    for status in statuses:
        query = (status.query_id, WHOLE)
        known, figures = before.get(query, Counts()), status.metrics
        left = sum(task.to_restore for task in status.tasks)
        replay = known.replay if known.to_restore else left + figures.restored - known.restored
        counts[query] = Counts(
            figures.records_in,
            figures.records_out,
            figures.restored,
            left,
            max(left, replay) if left else 0,
        )
        for sub in status.sub_topologies:
            own = sub.metrics
            counts[status.query_id, sub.index] = Counts(own.records_in, own.records_out)
    return counts


def rates(samples: Samples, subject: Subject) -> tuple[float, float]:
    """Records in and out per second over the window, or since the subject exists."""
    history = _history(samples, subject)
    return (
        _rate([(at, counts.records_in) for at, counts in history]),
        _rate([(at, counts.records_out) for at, counts in history]),
    )


def restoration(samples: Samples, query_id: str) -> Restoration | None:
    """The progress of a query's replay of its changelogs; None if there is nothing to replay."""
    history = _history(samples, (query_id, WHOLE))
    if not history or not history[-1][1].to_restore:
        return None
    ended, now = history[-1]
    first = len(history) - 1
    while first and history[first][1].to_restore:
        first -= 1
    began, then = history[first]
    # `to_restore` counts offsets. A changelog whose offsets have gaps has fewer records.
    replayed = max(0, (then.to_restore or now.replay) - now.to_restore)
    speed = replayed * SECOND_NS / (ended - began) if ended > began else 0.0
    return Restoration(
        left=now.to_restore,
        total=now.replay,
        per_second=speed,
        eta_seconds=now.to_restore / speed if speed else None,
    )


def _history(samples: Samples, subject: Subject) -> list[tuple[int, Counts]]:
    """The counters of a subject over time. The last sample before it existed counts as zero."""
    known = [sample for sample in samples if subject in sample.counts]
    before = samples[: len(samples) - len(known)][-1:]
    return [(sample.at, sample.counts.get(subject, Counts())) for sample in (*before, *known)]


def _rate(points: Sequence[tuple[int, int]]) -> float:
    """The rate per second from the first point to the last. A counter that decreases has restarted
    at zero, because another query of the same name replaced its query."""
    if not points or points[-1][0] <= points[0][0]:
        return 0.0
    grown = sum(
        after - before if after >= before else after for (_, before), (_, after) in pairwise(points)
    )
    return grown * SECOND_NS / (points[-1][0] - points[0][0])
