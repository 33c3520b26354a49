"""Backs up the database of this process: `Database.backup`, and BACKUP TO."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from millstream.backup.backup import BackedUp, back_up
from millstream.log.embedded import EmbeddedLog
from millstream.model.clock import now_ms
from millstream.model.errors import StatementError, UnavailableError
from millstream.queries.registry import QueryRegistry
from millstream.query.results import Done
from millstream.query.session import Session
from millstream.service import wordings
from millstream_parser.statements import Backup

HOLD_S = 5.0
"""How long queries are waited for."""
COMMITS = 3
"""How often a commit that fails is tried."""


def backup(registry: QueryRegistry, url: str, keep: int | None) -> BackedUp:
    """See `Database.backup`."""
    if not isinstance(registry.log, EmbeddedLog):
        raise StatementError(
            "Only a database in a file or in memory is backed up from here.",
            hint="The topics are on the cluster: copy or mirror them with its own tools.",
        )
    return back_up(registry.log, url, now_ms, keep, lambda: _committed(registry))


@contextmanager
def _committed(registry: QueryRegistry) -> Iterator[None]:
    """Hold all queries, with all that they have done committed: a query that guarantees at least
    once writes results before it commits, and would repeat them in a restored database. One that
    does not come to rest in time is not waited for."""
    until = time.monotonic() + HOLD_S
    with ExitStack() as held:
        for query_id in sorted(registry.catalog.queries):
            with suppress(UnavailableError):
                held.enter_context(registry.driver.holding([query_id], until))
                _commit(registry, query_id)
        yield


def _commit(registry: QueryRegistry, query_id: str) -> None:
    for _ in range(COMMITS):
        reached = registry.runtime.reached(query_id)
        if reached is None or reached.committed:
            return
        registry.runtime.commit_query(query_id, now_ms())


def backup_to(registry: QueryRegistry, statement: Backup, session: Session) -> Done:
    """Execute BACKUP TO."""
    check_local(session)
    return Done(str(backup(registry, statement.place, statement.keep)))


def check_local(session: Session) -> None:
    """Refuse BACKUP TO over a network: it writes files where the server runs."""
    if not session.local:
        raise wordings.BACKUP_OVER_NETWORK(
            hint="Run it where the database is open: in its shell, or as db.backup(…) in Python."
        )
