"""The outcomes of all commands on the command topic, including those before this start."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from millstream.command_topic.command_topic import CommandTopic
from millstream.command_topic.replaying import StatementOutcome, plan_command

OUTCOMES_MAX = 10_000
"""Older outcomes are dropped."""


class Outcomes:
    """A second replay of the command topic, because the engine's own may have started from a
    snapshot. It runs on demand, and continues from the last position. Thread-safe."""

    def __init__(self, command_topic: CommandTopic) -> None:
        self._command_topic = command_topic
        self._lock = threading.Lock()
        self._snapshot = command_topic.registry.definitions.cleared()
        self._position = -1
        self._outcomes: deque[StatementOutcome] = deque(maxlen=OUTCOMES_MAX)

    def known(self) -> Sequence[StatementOutcome]:
        """The outcomes in the order of the commands; UnavailableError when the log does not
        respond."""
        with self._lock:
            for entry in self._command_topic.log.since(self._position):
                if entry.command is not None:
                    result = plan_command(
                        entry.command,
                        self._snapshot,
                        self._command_topic.registry.replay_environment,
                    )
                    self._snapshot = result.after
                    self._outcomes.extend(result.outcomes)
                self._position = entry.offset + 1
            return tuple(self._outcomes)
