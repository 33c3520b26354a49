"""Coordinates a pipeline with the other instances of its service: it follows the command topic, and
yields queries to instances that join their groups."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable

from millstream.command_topic import following
from millstream.command_topic.command_topic import CommandTopic
from millstream.model.errors import MillstreamError
from millstream.pipeline.carried import PipelineQuery

POLL_SECONDS = 0.2


class PipelineCoordinator:
    """Runs in its own thread, because an epoch, and the wait for the next one, may take long."""

    def __init__(
        self, command_topic: CommandTopic, queries: Callable[[], Iterable[PipelineQuery]]
    ) -> None:
        self._command_topic = command_topic
        self._queries = queries
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
        while not self._stopping.wait(POLL_SECONDS):
            try:
                following.follow(self._command_topic)
            except MillstreamError as error:
                logging.getLogger("millstream").warning("commands cannot be followed: %s", error)
            yield_to_others(tuple(self._queries()))


def yield_to_others(queries: Collection[PipelineQuery]) -> None:
    """Leave the groups of all queries if other instances share one. They take part in all queries,
    but may have got all tasks of some and none of others."""
    others = any(query.shared for query in queries)
    for query in queries:
        query.yield_tasks(force=others)
