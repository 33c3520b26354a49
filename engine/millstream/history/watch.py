"""The progress and the cancellation of a historical query or a back-fill."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from millstream.history.progress import StageProgress
from millstream.history.reading import ReadChunk, Source
from millstream.history.splits import Split


class CancelledError(Exception):
    """The query was cancelled."""


@dataclass(slots=True, eq=False)
class Watch:
    """Progress of one query. The thread that runs the query updates it; any thread may read it or
    cancel the query."""

    name: str = ""
    """The stream or table that a back-fill computes."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    on_cancel: Callable[[], None] | None = None
    """Interrupts DuckDB."""
    _stages: dict[str, StageProgress] = field(default_factory=dict)
    _remote_stages: Callable[[], tuple[StageProgress, ...]] | None = None
    _cancel_remote: Callable[[], None] | None = None

    def stages(self) -> tuple[StageProgress, ...]:
        """The progress of each stage."""
        remote = self._remote_stages
        return tuple(self._stages.values()) if remote is None else remote()

    def follow(
        self, stages: Callable[[], tuple[StageProgress, ...]], cancel: Callable[[], None]
    ) -> None:
        """Take the progress from another process that runs the query, and cancel the query
        there."""
        self._remote_stages, self._cancel_remote = stages, cancel

    def unfollow(self) -> None:
        """End `follow`."""
        self._remote_stages = self._cancel_remote = None

    def show(self, name: str, done: int, total: int) -> None:
        """Set the progress of a stage."""
        self._stages[name] = StageProgress(name, done, total)

    def add(self, name: str, done: int) -> None:
        """Advance the progress of a stage. Raises CancelledError if the query was cancelled."""
        stage = self._stages[name]
        self.show(name, min(stage.done + done, stage.total), stage.total)
        self.check()

    def check(self) -> None:
        """Raise CancelledError if the query was cancelled."""
        if self.cancelled.is_set():
            raise CancelledError

    def cancel(self) -> None:
        """Cancel the query; idempotent. An interrupt between two statements of DuckDB has no
        effect, so a caller that waits for the end must call this repeatedly."""
        self.cancelled.set()
        for cancel in (self.on_cancel, self._cancel_remote):
            if cancel is not None:
                cancel()


@dataclass(frozen=True, slots=True)
class Watched:
    """Implements `Source`: counts the offsets that were read, and stops when cancelled."""

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
