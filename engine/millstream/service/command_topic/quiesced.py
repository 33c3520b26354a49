"""A query that stands still on all instances, while one of them puts another in its place.

That one says so with its turn, and waits until nobody is in the query's group any more. Whoever
joins later finds the word before he opens a task (`service/threads/catch_up_gate.py`). The next
entry of
the topic ends it, whatever it is: the command by which the query is replaced, or a turn, whose
writer has fenced the one who wanted the query to stand still. So the others end it themselves when
that one has died.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from millstream.ddl.effects import ReplacedTable
from millstream.log.settled import SETTLE_SECONDS, await_settled
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.service.command_topic.entries import Hold
from millstream.service.engine import Engine
from millstream.service.history.backfill_result import BackfillResult
from millstream.service.statements import teardown

LEAVE_SECONDS = 60.0
_PAUSE_SECONDS = 0.05
_SLOWEST = 1_000_000
"""So many bytes a second are compared, and written, at least."""
_SECOND_NS = 1_000_000_000


@dataclass(slots=True)
class QuiescedQueries:
    """What an instance knows of the query that stands still. `since`: when it heard of it, in ns
    of its own; `met`: whether it has seen alive whoever wants that."""

    hold: Hold
    since: int
    met: bool = False


def hold_for(engine: Engine, filled: BackfillResult | None) -> Hold | None:
    """What to say for the query to stand still that is to be replaced; None where there is none,
    or nobody to tell."""
    if not engine.shared or filled is None or filled.replaced is None:
        return None
    query_id = filled.replaced.query_id
    seconds = LEAVE_SECONDS + SETTLE_SECONDS + 2 * filled.size / _SLOWEST
    return None if query_id is None else Hold(query_id, engine.incarnation, seconds)


def stand_still(engine: Engine, hold: Hold, *, live: bool) -> None:
    """Somebody wants a query to; `live`: those of the catalog run."""
    engine.ledger.standing = QuiescedQueries(hold, engine.ticks())
    if live and hold.query_id in engine.catalog.queries:
        try:
            teardown.stop(engine, hold.query_id)
        except MillstreamError as error:
            logging.getLogger("millstream").warning("%s stops later: %s", hold.query_id, error)


def overdue(engine: Engine) -> bool:
    """Whether whoever wanted a query to stand still seems to be dead."""
    standing = engine.ledger.standing
    if standing is None:
        return False
    hold = standing.hold
    alive = {one.metadata.incarnation for one in engine.host_info.peers() if one.alive} | {
        engine.incarnation
    }
    standing.met = standing.met or hold.by in alive
    waited = (engine.ticks() - standing.since) / _SECOND_NS
    return waited > hold.seconds or (standing.met and hold.by not in alive)


def await_standing(engine: Engine, replaced: ReplacedTable, width: int) -> None:
    """Until no instance can write for a query that is told to stand still, and what was written is
    settled. UnavailableError when that takes too long."""
    try:
        _await_vacant(engine, replaced.made_by)
        await_settled(engine.log, ((replaced.topic, partition) for partition in range(width)))
    except UnavailableError as error:
        raise UnavailableError(
            f"{error.message}; nothing was changed",
            detail=error.detail,
            hint="Give the statement again.",
        ) from error


def _await_vacant(engine: Engine, query_id: str) -> None:
    deadline = time.monotonic() + LEAVE_SECONDS
    while not engine.log.vacant(query_id):
        if time.monotonic() > deadline:
            raise UnavailableError(f"Other instances have not stopped query {query_id} in time")
        time.sleep(_PAUSE_SECONDS)
