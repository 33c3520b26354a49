"""A pipeline among the other instances of its service: it hears what they define, and leaves to
them what they want."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from millstream.model.errors import MillstreamError
from millstream.service.command_topic import following
from millstream.service.engine import Engine
from millstream.service.pipeline.carried import Carried

PAUSE_SECONDS = 0.2


class PipelineCoordinator:
    """A thread of its own, as an epoch takes its time, and so does the wait for the next one."""

    def __init__(self, engine: Engine, carried: Callable[[], Iterable[Carried]]) -> None:
        self._engine = engine
        self._carried = carried
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="millstream-attend", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it; idempotent."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(PAUSE_SECONDS):
            try:
                following.follow(self._engine)
            except MillstreamError as error:
                logging.getLogger("millstream").warning("commands cannot be followed: %s", error)
            for one in self._carried():
                one.step_aside()
