"""Quiesces a query on all instances while one of them replaces it.

The replacing instance requests this with its lease, and waits until the query's group is empty. An
instance that joins the group later reads the request before it opens a task
(`scheduler/catch_up_gate.py`). The next entry of the topic ends the quiescence: either the
command that replaces the query, or another lease, whose writer has fenced the requester. So the
other instances can end it themselves when the requester has died (docs/adr/0016-back-fill.md).
"""

from __future__ import annotations

import logging
import time

from millstream.command_topic.command_topic import CommandTopic
from millstream.command_topic.entries import QuiesceRequest
from millstream.command_topic.replay_state import QuiescedQuery
from millstream.ddl.effects import ReplacedTable
from millstream.log.settled import SETTLE_SECONDS, await_settled
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.queries import teardown
from millstream.queries.backfill_result import BackfillResult

LEAVE_SECONDS = 60.0
"""The time limit for all instances to leave the group of a quiesced query."""
_PAUSE_SECONDS = 0.05
_BYTES_PER_SECOND = 1_000_000
"""A lower bound of the rate at which tables are compared and written."""
_SECOND_NS = 1_000_000_000


def quiesce_request(
    command_topic: CommandTopic, backfill: BackfillResult | None
) -> QuiesceRequest | None:
    """The request to quiesce the query that a back-fill replaces; None if it replaces none, or if
    there are no other instances."""
    if not command_topic.registry.shared or backfill is None or backfill.replaced is None:
        return None
    query_id = backfill.replaced.query_id
    seconds = LEAVE_SECONDS + SETTLE_SECONDS + 2 * backfill.size / _BYTES_PER_SECOND
    return (
        None if query_id is None else QuiesceRequest(query_id, command_topic.incarnation, seconds)
    )


def quiesce(command_topic: CommandTopic, request: QuiesceRequest, *, live: bool) -> None:
    """Quiesce a query on this instance; `live`: whether the queries of the catalog are running."""
    command_topic.state.quiesced = QuiescedQuery(request, command_topic.ticks())
    query_id = request.query_id
    if live and query_id in command_topic.registry.catalog.queries:
        try:
            teardown.stop(command_topic.registry, query_id)
        except MillstreamError as error:
            logging.getLogger("millstream").warning("query %s stops later: %s", query_id, error)


def is_overdue(command_topic: CommandTopic) -> bool:
    """Whether the requester of the current quiescence appears to be dead. A wrong guess is safe,
    because taking a lease fences the requester."""
    quiesced = command_topic.state.quiesced
    if quiesced is None:
        return False
    request = quiesced.request
    requester_alive = request.requester in command_topic.alive() | {command_topic.incarnation}
    quiesced.requester_seen = quiesced.requester_seen or requester_alive
    waited = (command_topic.ticks() - quiesced.since) / _SECOND_NS
    return waited > request.seconds or (quiesced.requester_seen and not requester_alive)


def await_quiesced(command_topic: CommandTopic, replaced: ReplacedTable, width: int) -> None:
    """Wait until no instance can write for a quiesced query any more, and all transactions on its
    table are committed or aborted. Raises UnavailableError when that takes too long."""
    try:
        _await_vacant(command_topic, replaced.made_by)
        await_settled(
            command_topic.registry.log, ((replaced.topic, partition) for partition in range(width))
        )
    except UnavailableError as error:
        raise UnavailableError(
            f"{error.message}; nothing was changed",
            detail=error.detail,
            hint="Repeat the statement.",
        ) from error


def _await_vacant(command_topic: CommandTopic, query_id: str) -> None:
    deadline = time.monotonic() + LEAVE_SECONDS
    while not command_topic.registry.log.vacant(query_id):
        if time.monotonic() > deadline:
            raise UnavailableError(f"Other instances have not stopped query {query_id} in time")
        time.sleep(_PAUSE_SECONDS)
