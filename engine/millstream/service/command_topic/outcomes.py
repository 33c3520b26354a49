"""What became of every command that the command topic has, also of those before this start."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from millstream.service.command_topic.replaying import Outcome, replayed
from millstream.service.engine import Engine

OUTCOMES_MAX = 10_000
"""The oldest are forgotten."""


class Outcomes:
    """A second replay of the command topic beside the engine's, as that may have begun with a
    snapshot: done when somebody asks, and from then on continued. For any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._snapshot = engine.definitions.cleared()
        self._position = -1
        self._found: deque[Outcome] = deque(maxlen=OUTCOMES_MAX)

    def known(self) -> Sequence[Outcome]:
        """The outcomes in the order of the commands; UnavailableError when the log does not
        answer."""
        with self._lock:
            for entry in self._engine.commands.since(self._position):
                if entry.command is not None:
                    made = replayed(entry.command, self._snapshot, self._engine.replay_environment)
                    self._snapshot = made.after
                    self._found.extend(made.outcomes)
                self._position = entry.offset + 1
            return tuple(self._found)
