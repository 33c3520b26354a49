"""A back-fill in the shell: how far it is, and Ctrl-C."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from millstream.model.errors import MillstreamError
from millstream.service.history.watch import Watch
from millstream_cli.sessions.interrupts import Interrupt
from millstream_cli.sessions.results import Progress

_LOOK_SECONDS = 0.2
_ASK_SECONDS = 0.5
_FIGURE = re.compile(
    r'^millstream_backfill_(done|size)\{sink="([^"]+)",stage="([^"]+)"\} (\d+)', re.MULTILINE
)


@contextmanager
def followed(progress: Progress | None, interrupt: Interrupt) -> Iterator[Callable[[Watch], None]]:
    """What a session calls when a job begins in this process: from then on, until this ends, its
    progress is told, and Ctrl-C ends it."""
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
def asked(progress: Progress, figures: Callable[[], str]) -> Iterator[None]:
    """Until this ends, tell the progress of jobs that a server has in its figures. One that does
    not tell them is as good."""
    with _looking() as look:

        def tell() -> None:
            found: dict[tuple[str, str], dict[str, int]] = {}
            for kind, sink, stage, value in _FIGURE.findall(figures()):
                found.setdefault((sink, stage), {})[kind] = int(value)
            for (sink, stage), told in found.items():
                progress(told["done"], told["size"], f"{sink}: {stage}")

        look(tell, _ASK_SECONDS)
        yield


@contextmanager
def _looking() -> Iterator[Callable[[Callable[[], None], float], None]]:
    """Has something done again and again in a thread, until this ends or it fails."""
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
