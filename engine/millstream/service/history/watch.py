"""How far a historical query or a back-fill is, and whether it is to end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from millstream.history.progress import StageProgress
from millstream.history.reading import ReadChunk, Source
from millstream.history.splits import Split


class CancelledError(Exception):
    """Whoever asked does not want the answer any more."""


@dataclass(slots=True, eq=False)
class Watch:
    """Written by the thread that reads, asked and cancelled from any other."""

    name: str = ""
    """Of the stream or table that is filled."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    on_cancel: Callable[[], None] | None = None
    """Interrupts DuckDB."""
    _stages: dict[str, StageProgress] = field(default_factory=dict)
    _elsewhere: Callable[[], tuple[StageProgress, ...]] | None = None
    _end_elsewhere: Callable[[], None] | None = None

    def stages(self) -> tuple[StageProgress, ...]:
        """How far each stage is."""
        elsewhere = self._elsewhere
        return tuple(self._stages.values()) if elsewhere is None else elsewhere()

    def follow(
        self, stages: Callable[[], tuple[StageProgress, ...]], end: Callable[[], None]
    ) -> None:
        """The query runs in another process: how far it is there, and how to end it."""
        self._elsewhere, self._end_elsewhere = stages, end

    def unfollow(self) -> None:
        """It does not any more."""
        self._elsewhere = self._end_elsewhere = None

    def show(self, name: str, done: int, total: int) -> None:
        """A stage is so far."""
        self._stages[name] = StageProgress(name, done, total)

    def add(self, name: str, done: int) -> None:
        """A stage is so much farther. CancelledError where it is to end."""
        stage = self._stages[name]
        self.show(name, min(stage.done + done, stage.total), stage.total)
        self.check()

    def check(self) -> None:
        """CancelledError where the query is to end."""
        if self.cancelled.is_set():
            raise CancelledError

    def cancel(self) -> None:
        """End the query; idempotent. What ends a statement between two of them is lost: whoever
        waits for the end calls again."""
        self.cancelled.set()
        for end in (self.on_cancel, self._end_elsewhere):
            if end is not None:
                end()


@dataclass(frozen=True, slots=True)
class Watched:
    """Implements `Source`: counts the offsets that were gone through, and ends when told to."""

    source: Source
    watch: Watch
    stage: str

    def pieces(self, split: Split) -> Iterator[ReadChunk]:
        """See `Source`."""
        at = split.start
        for records, following in self.source.pieces(split):
            self.watch.add(self.stage, following - at)
            at = following
            yield records, following
