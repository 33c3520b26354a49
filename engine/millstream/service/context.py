"""What a statement that changes the catalog is applied in."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.catalog.catalog import Catalog
from millstream.service import wordings
from millstream.service.command_log.commands import Write
from millstream.service.engine import Engine
from millstream.service.history.filled import Filled
from millstream.service.session import Session
from millstream_parser import statements as s


@dataclass(frozen=True, slots=True)
class Context:
    """What a definition is applied in. `offset` is that of its command."""

    text: str
    script: str
    engine: Engine
    session: Session
    offset: int
    replaying: bool
    write: Write
    """Puts the statement on the command log: called before what cannot be undone."""
    filled: Filled | None = None
    """What a job has made of the past of the query that the statement starts."""

    @property
    def catalog(self) -> Catalog:
        """The catalog before the statement."""
        return self.engine.catalog


def check_replacing(statement: s.CreateSource | s.CreateAs, context: Context) -> None:
    """Refuse OR REPLACE where the session has it switched off."""
    if statement.or_replace and not context.session.flag("ksql.create.or.replace.enabled"):
        raise wordings.REPLACING_DISABLED(
            kind=statement.kind.lower(),
            statement=statement.name,
            hint="SET 'ksql.create.or.replace.enabled' = 'true' allows it.",
        )
