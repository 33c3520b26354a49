"""What a statement comes to: the catalog after it, its message, and its effects outside of it."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.ddl.snapshot import CatalogSnapshot
from millstream.log.log import Topic


@dataclass(frozen=True, slots=True)
class ReplacedTable:
    """A table that another query is to compute anew: its topic, and the query that makes it; None
    where that has ended. `made_by`: the query that made it last in any case."""

    topic: str
    query_id: str | None
    made_by: str


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Make a topic for records of users."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class StartQuery:
    """Make the internal topics of a new query and run it."""

    query_id: str


@dataclass(frozen=True, slots=True)
class BackfillQuery:
    """As `StartQuery`, but the query begins with what a job has made of its past: its topics are
    made before the command is written, and it runs after that."""

    query_id: str
    replaced: ReplacedTable | None = None


@dataclass(frozen=True, slots=True)
class ReplaceQuery:
    """Let a query go on with another plan. Its id, state and positions stay."""

    query_id: str


@dataclass(frozen=True, slots=True)
class EndQuery:
    """End a query for good: its state, positions and internal topics go too. `topics`: as they
    were when it was created."""

    query_id: str
    topics: tuple[Topic, ...] = ()


@dataclass(frozen=True, slots=True)
class PauseQuery:
    """Have a query read nothing more for now."""

    query_id: str


@dataclass(frozen=True, slots=True)
class ResumeQuery:
    """Let a query go on after a pause or an error."""

    query_id: str


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete this topic, and not a later one of its name."""

    name: str
    id: str


Effect = (
    CreateTopic
    | StartQuery
    | BackfillQuery
    | ReplaceQuery
    | EndQuery
    | PauseQuery
    | ResumeQuery
    | DeleteTopic
)
"""`CreateTopic`, `StartQuery` and `BackfillQuery` come before the command is written, and are taken
back where that fails; all others come after it."""


@dataclass(frozen=True, slots=True)
class Change:
    """`after`: the catalog after the statement. `query_id`: the query that it starts, if any.
    Without `changed` there was nothing to do (IF NOT EXISTS, IF EXISTS), and nothing is written.
    """

    after: CatalogSnapshot
    message: str
    effects: tuple[Effect, ...] = ()
    query_id: str | None = None
    changed: bool = True

    @property
    def backfill(self) -> BackfillQuery | None:
        """The query that begins with its past, if any."""
        return next((item for item in self.effects if isinstance(item, BackfillQuery)), None)

    @property
    def deletes(self) -> tuple[str, str] | None:
        """Name and id of the topic that is deleted after the command is written, if any."""
        found = next((item for item in self.effects if isinstance(item, DeleteTopic)), None)
        return None if found is None else (found.name, found.id)


def nothing_to_do(before: CatalogSnapshot, message: str) -> Change:
    """A statement for which everything is as it should be already."""
    return Change(before, message, changed=False)
