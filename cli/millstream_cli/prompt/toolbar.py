"""The toolbar below the prompt: the connection and the state of the queries, updated in the
background."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from prompt_toolkit.formatted_text import StyleAndTextTuples

from millstream.service.processing_stream import NAME as PROCESSING_LOG
from millstream_cli.sessions.results import Status

_SECONDS = 1.0


@dataclass(slots=True)
class Watch:
    """Polls the status in a thread of its own, because a server may respond slowly."""

    look: Callable[[], Status]
    latest: Status
    over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Watch:
        threading.Thread(target=self._run, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()

    def _run(self) -> None:
        while not self.over.is_set():
            try:
                self.latest = self.look()
            except Exception:  # the engine may be closing; the toolbar has no room for the reason
                self.latest = Status(self.latest.where, reachable=False)
            self.over.wait(_SECONDS)


def toolbar(status: Status, form: str, vi: bool) -> StyleAndTextTuples:
    """The parts of the toolbar, errors in red."""
    parts: StyleAndTextTuples = [("bold", f" {status.where} ")]
    if not status.reachable:
        return [*parts, ("class:bottom-toolbar.bad", " not reachable ")]
    states = [query.state for query in status.queries]
    failed = states.count("ERROR")
    running = states.count("RUNNING")
    noun = "query" if len(states) == 1 else "queries"
    parts.append(("", f"| {running} of {len(states)} {noun} running "))
    if failed:
        parts.append(("class:bottom-toolbar.bad", f" {failed} in error "))
    skipped = sum(query.skipped for query in status.queries)
    if skipped:
        noun = "record" if skipped == 1 else "records"
        text = f" {skipped:,} {noun} skipped, see {PROCESSING_LOG} "
        parts.append(("class:bottom-toolbar.bad", text))
    left = sum(query.restore_left for query in status.queries)
    if left:
        total = sum(query.restore_total for query in status.queries)
        times = [q.eta_seconds for q in status.queries if q.eta_seconds is not None]
        done = f", {max(times):.0f} s left" if times else ""
        parts.append(("", f"| restoring {100 * (total - left) // total} %{done} "))
    if status.queries:
        parts.append(("", f"| lag {'?' if status.lag is None else f'{status.lag:,}'} "))
    parts.append(("", f"| {form} | {'vi' if vi else 'emacs'} (F4) "))
    return parts
