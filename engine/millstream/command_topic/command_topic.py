"""This instance's end of the command topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from millstream.command_topic.commands import CommandLog
from millstream.command_topic.replay_state import ReplayState
from millstream.queries.registry import QueryRegistry


@dataclass(slots=True)
class CommandTopic:
    """What this instance has replayed of the command topic, and how it appends to it. It changes
    under the driver's lock.

    `registry`: the queries that the commands define. `clock`: the time of day in ms. `ticks`: a
    monotonic clock in ns. `incarnation`: identifies this process; `alive` returns the incarnations
    of the other instances that are alive.
    """

    log: CommandLog
    registry: QueryRegistry
    clock: Callable[[], int]
    ticks: Callable[[], int]
    incarnation: str
    alive: Callable[[], frozenset[str]]
    state: ReplayState = field(default_factory=ReplayState)
