"""Progress of remote operations in the shell, and Ctrl-C of a back-fill."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from millstream.history.progress import StageProgress
from millstream.history.watch import Watch
from millstream.model.errors import MillstreamError
from millstream_cli.sessions.interrupts import Interrupt
from millstream_cli.sessions.results import Progress

_LOOK_SECONDS = 0.2
_ASK_SECONDS = 0.5
_FIGURE = re.compile(
    r'^millstream_backfill_(done|size)\{sink="([^"]+)",stage="([^"]+)"\} (\d+)', re.MULTILINE
)


@contextmanager
def followed(progress: Progress | None, interrupt: Interrupt) -> Iterator[Callable[[Watch], None]]:
    """The callback of a session for a job that begins in this process: while this context is open,
    its progress is reported, and Ctrl-C ends it."""
    with _looking() as look:

        def follow(watch: Watch) -> None:
            def tell() -> None:
                if interrupt.wanted:
                    watch.cancel()
                if progress is not None:
                    for stage in watch.stages():
                        progress(stage.done, stage.total, f"{watch.name}: {stage.name}")

            look(tell, _LOOK_SECONDS)

        yield follow


@contextmanager
def asked(progress: Progress, stages: Callable[[], Iterable[StageProgress]]) -> Iterator[None]:
    """Poll a server's progress and report it until this context ends. Errors are ignored."""
    with _looking() as look:

        def tell() -> None:
            for stage in stages():
                progress(stage.done, stage.total, stage.name)

        look(tell, _ASK_SECONDS)
        yield


def fills(figures: str) -> Iterator[StageProgress]:
    """The back-fills in a server's metrics."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for kind, sink, stage, value in _FIGURE.findall(figures):
        found.setdefault((sink, stage), {})[kind] = int(value)
    for (sink, stage), told in found.items():
        yield StageProgress(f"{sink}: {stage}", told["done"], told["size"])


@contextmanager
def _looking() -> Iterator[Callable[[Callable[[], None], float], None]]:
    """Calls a function repeatedly in a thread, until this context ends or the call fails."""
    ended = threading.Event()
    threads: list[threading.Thread] = []

    def look(action: Callable[[], None], seconds: float) -> None:
        def run() -> None:
            try:
                while not ended.wait(seconds):
                    action()
            except MillstreamError:
                return

        threads.append(threading.Thread(target=run, name="millstream-filling", daemon=True))
        threads[-1].start()

    try:
        yield look
    finally:
        ended.set()
        for thread in threads:
            thread.join()
