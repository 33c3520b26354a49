"""The state of one session: its user, its settings, and its view of the catalog."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from millstream.catalog.source import Source
from millstream_parser.parameters import Value
from millstream_server.auth.principal import Principal
from millstream_server.auth.visible import VisibleCatalog
from millstream_server.postgres.casts import without_casts
from millstream_server.postgres.introspection import Introspection
from millstream_server.postgres.portals import Cursor, Prepared
from millstream_server.postgres.relations import DATABASE
from millstream_server.postgres.settings import DEFAULTS
from millstream_server.postgres.spelling import Spelling, visible_sources
from millstream_server.requests import Asked
from millstream_server.server import Server

IDLE, IN_TRANSACTION, FAILED = "I", "T", "E"


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """What a client may see of one catalog, by one set of rules."""

    sight: VisibleCatalog
    sources: Sequence[Source]
    spelling: Spelling

    def still(self, sight: VisibleCatalog) -> bool:
        """Whether it is what may be seen now."""
        same = sight.access is self.sight.access or sight.access == self.sight.access
        return (
            self.sight.catalog is sight.catalog and same and self.sight.principal == sight.principal
        )


@dataclass(slots=True, eq=False)
class SessionState:
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
    _known: _Seen | None = None
    _introspection: tuple[_Seen, dict[str, str], Introspection] | None = None

    async def recognise_again(self) -> None:
        """Check that the user may still be here: passwords and roles change. Raises
        RefusedError."""
        if self.principal.by is not None:
            guard = self.server.guard
            self.principal = await self.server.run(guard.recognise_again, self.principal)

    def sources(self) -> Sequence[Source]:
        """The streams and tables that the client may see now."""
        return self._seen().sources

    def spelling(self) -> Spelling:
        """The names that the client may see."""
        return self._seen().spelling

    def _seen(self) -> _Seen:
        sight = self.server.guard.sight(self.principal, self.server.engine.catalog)
        if self._known is None or not self._known.still(sight):
            sources = visible_sources(sight)
            self._known = _Seen(sight, sources, Spelling.of(sources))
        return self._known

    def asked(self, text: str, values: list[Value]) -> Asked:
        """A statement with its settings, as a request of the HTTP API."""
        written = self.spelling().in_dialect(without_casts(text), DATABASE).rstrip()
        ended = written if written.endswith(";") else f"{written}\n;"
        return Asked(ended, dict(self.properties), dict(self.variables), parameters=values)

    async def introspection(self) -> Introspection:
        """The catalog, made again when what the client may see has changed."""
        seen, settings = self._seen(), dict(self.settings)
        if self._introspection is not None:
            of, with_settings, known = self._introspection
            if of is seen and with_settings == settings and known.whole:
                return known
            self.close()
        made = await asyncio.to_thread(
            Introspection, seen.sources, seen.spelling, self.user, settings
        )
        self._introspection = seen, settings, made
        return made

    async def close_cursors(self) -> None:
        """End all cursors."""
        while self.cursors:
            _, cursor = self.cursors.popitem()
            await cursor.outcome.batches.aclose()

    def close(self) -> None:
        """Release what the session holds."""
        if self._introspection is not None:
            self._introspection[2].close()
            self._introspection = None
