"""The state of one session: its user, its settings, and its view of the catalog."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from millstream.catalog.catalog import Catalog
from millstream_parser.parameters import Value
from millstream_server.auth.principal import Principal
from millstream_server.postgres.casts import without_casts
from millstream_server.postgres.introspection import Introspection
from millstream_server.postgres.outcomes import Cursor, Prepared
from millstream_server.postgres.relations import DATABASE
from millstream_server.postgres.settings import DEFAULTS
from millstream_server.postgres.spelling import Spelling, visible_sources
from millstream_server.requests import Asked
from millstream_server.server import Server

IDLE, IN_TRANSACTION, FAILED = "I", "T", "E"


@dataclass(slots=True, eq=False)
class Client:
    """`settings`: PostgreSQL's; `properties` and `variables`: the dialect's. `written`: whether a
    statement of the transaction has changed anything, which no ROLLBACK undoes."""

    server: Server
    principal: Principal
    user: str
    settings: dict[str, str] = field(default_factory=lambda: dict(DEFAULTS))
    properties: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    transaction: str = IDLE
    written: bool = False
    prepared: dict[str, Prepared] = field(default_factory=dict)
    cursors: dict[str, Cursor] = field(default_factory=dict)
    _introspection: tuple[tuple[Catalog, Principal, Mapping[str, str]], Introspection] | None = None

    async def recognise_again(self) -> None:
        """Check that the user may still be here: passwords and roles change. Raises
        RefusedError."""
        guard = self.server.guard
        self.principal = await self.server.run(guard.recognise_again, self.principal)

    def spelling(self) -> Spelling:
        """The names that the client may see."""
        sight = self.server.guard.sight(self.principal, self.server.engine.catalog)
        return Spelling.of(visible_sources(sight))

    def asked(self, text: str, values: list[Value]) -> Asked:
        """A statement with its settings, as a request of the HTTP API."""
        written = self.spelling().in_dialect(without_casts(text), DATABASE).rstrip()
        ended = written if written.endswith(";") else f"{written}\n;"
        return Asked(ended, dict(self.properties), dict(self.variables), parameters=values)

    async def introspection(self) -> Introspection:
        """The catalog, made again when it has changed."""
        catalog = self.server.engine.catalog
        if self._introspection is not None:
            (of, by, settings), known = self._introspection
            if of is catalog and by == self.principal and settings == self.settings:
                return known
            self.close()
        sources = visible_sources(self.server.guard.sight(self.principal, catalog))
        made = await asyncio.to_thread(
            Introspection, sources, Spelling.of(sources), self.user, dict(self.settings)
        )
        self._introspection = (catalog, self.principal, dict(self.settings)), made
        return made

    async def close_cursors(self) -> None:
        """End all cursors."""
        while self.cursors:
            _, cursor = self.cursors.popitem()
            await cursor.outcome.batches.aclose()

    def close(self) -> None:
        """Release what the session holds."""
        if self._introspection is not None:
            self._introspection[1].close()
            self._introspection = None
