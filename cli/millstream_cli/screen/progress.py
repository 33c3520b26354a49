"""Progress bars for long operations: loading a file, catching up, restoring state."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from millstream_cli.screen.output import Output
from millstream_cli.sessions.results import QueryStatus, Status

_LOOK_SECONDS = 0.2
_UNTOLD_MAX = 50
"""How many polls in a row may return nothing: a server need not report the lag of its queries."""


class _Rate(ProgressColumn):
    """How many a second, of the last half minute."""

    def render(self, task: Task) -> Text:
        """Nothing before two reports."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", style="progress.data.speed")


@dataclass(slots=True)
class Bars:
    """Bars below each other, shown while an operation runs and removed afterwards. Nothing is shown
    without a terminal."""

    out: Output
    clock: Callable[[], float] = time.monotonic
    shown: Progress | None = None
    tasks: dict[str, TaskID] = field(default_factory=dict)

    def done(self, done: int, total: int | None, name: str = "rows") -> None:
        """Report the progress of a statement."""
        self.update(name, done, total)

    def update(self, name: str, done: int, total: int | None) -> None:
        """Update the bar of this name, which is created if it is missing."""
        if not self.out.screen.is_terminal:
            return
        if self.shown is None:
            self.shown = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                _Rate(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=self.out.screen,
                transient=True,
                get_time=self.clock,
            )
            self.shown.start()
        if name not in self.tasks:
            self.tasks[name] = self.shown.add_task(name, total=total)
        self.shown.update(self.tasks[name], completed=done, total=total)

    def end(self) -> None:
        """Remove the bars."""
        if self.shown is not None:
            self.shown.refresh()
            self.shown.stop()
            self.shown = None
            self.tasks.clear()

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def wait(
    look: Callable[[], Status],
    out: Output,
    query_id: str | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> str:
    """Wait until the queries, or one of them, have processed all records; returns how it ended."""
    most: dict[str, int] = {}
    untold = 0
    with Bars(out) as bars:
        while untold < _UNTOLD_MAX:
            queries = [q for q in look().queries if query_id in (None, q.query_id)]
            failed = [query.query_id for query in queries if query.state == "ERROR"]
            if failed:
                return f"In error: {', '.join(failed)}. EXPLAIN says why."
            behind = [query for query in queries if not _caught_up(query)]
            if not behind:
                return "Up to date." if queries else "There is no query to wait for."
            told = any(query.lag is not None or query.restore_left for query in behind)
            untold = 0 if told else untold + 1
            for query in queries:
                _show(query, most, bars)
            pause(_LOOK_SECONDS)
    return f"It is not known how far they are: {', '.join(q.query_id for q in behind)}."


def _caught_up(query: QueryStatus) -> bool:
    if query.state == "PAUSED":
        return True
    return query.state == "RUNNING" and query.lag == 0 and not query.restore_left


def _show(query: QueryStatus, most: dict[str, int], bars: Bars) -> None:
    if query.restore_left:
        name = f"{query.query_id} restores"
        bars.update(name, query.restore_total - query.restore_left, query.restore_total)
    elif query.lag is not None:
        most[query.query_id] = max(query.lag, most.get(query.query_id, 0))
        total = most[query.query_id]
        bars.update(query.query_id, total - query.lag, total)
