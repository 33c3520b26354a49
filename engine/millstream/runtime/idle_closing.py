"""Closes windows without a record when the whole query has been idle (`idle.window.close.ms`).

The decision is a run like any other: its outputs, and the new stream time as a change of the state,
are committed together or not at all. A row that is still to come decides nothing any more, but one
that was there before the decision must not be late by it. So everything must have been read and
committed by all instances, and a sub-topology closes only after those that send to it: they may
hold rows back themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic

from millstream.log.log import Batch
from millstream.runtime.remote_upstreams import upstream_of
from millstream.runtime.spec import QuerySpec
from millstream.runtime.subtopology_runner import SubTopologyRunner
from millstream.runtime.subtopology_runners import SubTopologyRunners


class IdleClosing(Generic[Batch]):
    """The windows of one query that only time can close."""

    def __init__(self, spec: QuerySpec[Batch], runners: SubTopologyRunners[Batch]) -> None:
        self._idle_ms = spec.idle_window_close_ms
        self._runners = runners
        every = tuple(runners)
        self._senders = {
            runner.index: tuple(
                every[index]
                for topic in spec.repartitions.intersection(runner.spec.inputs)
                for index in upstream_of(spec, topic)
                if every[index].spec.holds_results
            )
            for runner in every
        }
        """For each sub-topology, those before it that may hold rows back."""

    def due_at(self, since: int) -> int | None:
        """When windows close if nothing happens until then. `since`: when this instance last had
        something to do for the query; None: no window may be open."""
        if self._idle_ms <= 0 or not any(map(self._closes, self._runners)):
            return None
        return max(since, self._runners.remote_upstreams.idle_since) + self._idle_ms

    def due(self, now: int, since: int) -> Iterator[SubTopologyRunner[Batch]]:
        """The sub-topologies whose windows have to be closed now, each one only if those before it
        had none to close."""
        at = self.due_at(since)
        if at is None or now < at or not self._idle(now):
            return
        yield from filter(self._closes, self._runners)

    def _closes(self, runner: SubTopologyRunner[Batch]) -> bool:
        """Rows that tasks of other instances hold back are not to be seen from here."""
        return runner.open_windows and all(sender.whole for sender in self._senders[runner.index])

    def _idle(self, now: int) -> bool:
        others = self._runners.remote_upstreams.idle(now)
        return others and all(runner.idle for runner in self._runners)
