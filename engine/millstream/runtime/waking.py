"""When a query has work although nothing happens outside."""

from __future__ import annotations

from millstream.log.log import Batch
from millstream.runtime.query_runner import STOPPED, QueryRunner
from millstream.runtime.spec import QueryState


def wake_at(query: QueryRunner[Batch], now: int) -> int | None:
    """The time of the next work of a query if the log has no news; None: never."""
    if query.state in STOPPED:
        return None
    if now < query.retry_state.retry_at:
        return query.retry_state.retry_at
    times = [query.commit_due()] if query.dirty else []
    if not query.dirty and (closing := query.closing.due_at(query.last_commit)) is not None:
        # When it is over, other instances or senders are not idle yet.
        times.append(closing if closing > now else now + query.settings.lag_interval_ms)
    punctuated = (runner.punctuation.due_at() for runner in query.runners)
    times += (at for at in punctuated if at is not None)
    poll = query.settings.await_poll_ms if awaiting(query) else query.settings.idle_poll_ms
    if poll is not None:
        times.append(now + poll)
    if query.runners.remote_upstreams.watched:
        asked = query.runners.remote_upstreams.next_at
        times.append(asked if asked > now else now + query.settings.await_poll_ms)
    if query.runners.scattered:
        times.append(query.next_gathering)
    if (idle_until := query.runners.idle_until) is not None:
        times.append(idle_until)
    return max(now, min(times)) if times else None


def backlog(query: QueryRunner[Batch]) -> int:
    """About how many records a query could process at once; callable from any thread."""
    return query.reader.ready(query.positions()) if query.state is QueryState.RUNNING else 0


def awaiting(query: QueryRunner[Batch]) -> bool:
    """Whether a query is idle only because records have not arrived yet."""
    if query.state in STOPPED or query.retry_state.error:
        return False
    return query.holding.pending or query.runners.awaiting
