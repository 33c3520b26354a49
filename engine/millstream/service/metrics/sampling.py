"""The counters of the queries as they were over the last half minute, and what follows: rates.

The runtime counts and has no clock. `Sampler` writes its counters down once a second, in a thread
of its own or by hand with a clock that is handed in; all the rest are functions of samples.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from millstream.runtime.spec import QueryStatus
from millstream.service.metrics.figures import Restoration

WINDOW_NS = 30_000_000_000
PERIOD_SECONDS = 1.0
SECOND_NS = 1_000_000_000
WHOLE = -1
"""In the place of a sub-topology: the whole query."""

Subject = tuple[str, int]
"""A query and one of its sub-topologies."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What one subject had done by the time of a sample."""

    records_in: int = 0
    records_out: int = 0
    restored: int = 0
    to_restore: int = 0
    replay: int = 0
    """`to_restore` when the restoration that is going on began."""


Samples = tuple["Sample", ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """All subjects at one time, in monotone nanoseconds."""

    at: int
    counts: Mapping[Subject, Counts]


class Sampler:
    """The samples of one engine. `look` tells what its queries have done, without waiting."""

    def __init__(self, look: Callable[[], Sequence[QueryStatus]], ticks: Callable[[], int]) -> None:
        """From the start on, so that what is done before the first sample counts as well."""
        self._look = look
        self._ticks = ticks
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._samples: Samples = (Sample(ticks(), {}),)

    def sample(self) -> None:
        """Write down how far everything is now."""
        with self._lock:
            self._samples = within_window((*self._samples, self._next(self._look())))

    def now(self, statuses: Sequence[QueryStatus]) -> Samples:
        """The samples up to this moment, at which the queries stand as `statuses` say."""
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
                # Nobody's rows depend on it: a gap in the figures, and the next second another try.
                logging.getLogger("millstream").exception("The queries' counters cannot be read")


def within_window(samples: Samples) -> Samples:
    """The samples without those that are too old; one that is at least as old as the window is
    long stays, to compare with."""
    horizon = samples[-1].at - WINDOW_NS
    first = max((at for at, sample in enumerate(samples) if sample.at <= horizon), default=0)
    return samples[first:]


def counts_of(
    statuses: Sequence[QueryStatus], before: Mapping[Subject, Counts]
) -> dict[Subject, Counts]:
    """What a sample says of the queries, `before` being the sample before it."""
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
        for stage in status.stages:
            own = stage.metrics
            counts[status.query_id, stage.index] = Counts(own.records_in, own.records_out)
    return counts


def rates(samples: Samples, subject: Subject) -> tuple[float, float]:
    """Records in and out per second over the window, or since the subject is there."""
    history = _history(samples, subject)
    return (
        _rate([(at, counts.records_in) for at, counts in history]),
        _rate([(at, counts.records_out) for at, counts in history]),
    )


def restoration(samples: Samples, query_id: str) -> Restoration | None:
    """How far a query's replay of its changelogs is; None when there is nothing to replay."""
    history = _history(samples, (query_id, WHOLE))
    if not history or not history[-1][1].to_restore:
        return None
    ended, now = history[-1]
    first = len(history) - 1
    while first and history[first][1].to_restore:
        first -= 1
    began, then = history[first]
    # Where its offsets have gaps, a changelog has fewer records than are counted down.
    replayed = max(0, (then.to_restore or now.replay) - now.to_restore)
    speed = replayed * SECOND_NS / (ended - began) if ended > began else 0.0
    return Restoration(
        left=now.to_restore,
        total=now.replay,
        per_second=speed,
        eta_seconds=now.to_restore / speed if speed else None,
    )


def _history(samples: Samples, subject: Subject) -> list[tuple[int, Counts]]:
    """A subject over time, from the last sample on in which it was not there yet: it had done
    nothing then."""
    known = [sample for sample in samples if subject in sample.counts]
    before = samples[: len(samples) - len(known)][-1:]
    return [(sample.at, sample.counts.get(subject, Counts())) for sample in (*before, *known)]


def _rate(points: Sequence[tuple[int, int]]) -> float:
    """By the second, from the first point to the last one. A counter that falls began anew at
    zero: its query was replaced by another one of its name."""
    if not points or points[-1][0] <= points[0][0]:
        return 0.0
    grown = sum(
        after - before if after >= before else after for (_, before), (_, after) in pairwise(points)
    )
    return grown * SECOND_NS / (points[-1][0] - points[0][0])
