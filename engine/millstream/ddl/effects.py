"""The result of planning a statement: the next catalog, a message, and effects outside of the
catalog."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.ddl.snapshot import CatalogSnapshot
from millstream.log.log import Topic
from millstream.model.schema_text import SchemaText


@dataclass(frozen=True, slots=True)
class ReplacedTable:
    """A table that another query is going to recompute.

    `query_id`: the query that writes its topic; None if that query has ended. `made_by`: the query
    that wrote it last, ended or not.
    """

    topic: str
    query_id: str | None
    made_by: str


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic for records of users."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class RegisterSchema:
    """Register a schema, unless the subject has it."""

    subject: str
    schema: SchemaText


@dataclass(frozen=True, slots=True)
class DeleteSubjects:
    """Delete the schemas of a topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class StartQuery:
    """Create the internal topics of a new query and run it."""

    query_id: str


@dataclass(frozen=True, slots=True)
class BackfillQuery:
    """Start a query from the result of a back-fill job. Its topics are created before the command
    is written; the query runs after that."""

    query_id: str
    replaced: ReplacedTable | None = None


@dataclass(frozen=True, slots=True)
class ReplaceQuery:
    """Continue a query with another plan. Its id, state and positions stay."""

    query_id: str


@dataclass(frozen=True, slots=True)
class EndQuery:
    """End a query and delete its state, positions and internal topics. `topics`: its topics as
    they were when it was created."""

    query_id: str
    topics: tuple[Topic, ...] = ()


@dataclass(frozen=True, slots=True)
class PauseQuery:
    """Stop a query from reading until it is resumed."""

    query_id: str


@dataclass(frozen=True, slots=True)
class ResumeQuery:
    """Continue a query after a pause or an error."""

    query_id: str


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete the topic of this name and id, not a later one of the same name."""

    name: str
    id: str


Effect = (
    CreateTopic
    | RegisterSchema
    | StartQuery
    | BackfillQuery
    | ReplaceQuery
    | EndQuery
    | PauseQuery
    | ResumeQuery
    | DeleteTopic
    | DeleteSubjects
)
"""`CreateTopic`, `RegisterSchema`, `StartQuery` and `BackfillQuery` are carried out before the
command is written, and undone if that fails, but schemas stay; all others after it."""


@dataclass(frozen=True, slots=True)
class Change:
    """The result of planning a statement.

    `after`: the catalog after the statement. `query_id`: the query that it starts, if any.
    `changed` is false if there is nothing to do (IF NOT EXISTS, IF EXISTS); then no command is
    written.
    """

    after: CatalogSnapshot
    message: str
    effects: tuple[Effect, ...] = ()
    query_id: str | None = None
    changed: bool = True

    @property
    def backfill(self) -> BackfillQuery | None:
        """The effect that starts a query from a back-fill, if any."""
        return next((item for item in self.effects if isinstance(item, BackfillQuery)), None)

    @property
    def deletes(self) -> tuple[str, str] | None:
        """The name and id of the topic that is deleted after the command is written, if any."""
        found = next((item for item in self.effects if isinstance(item, DeleteTopic)), None)
        return None if found is None else (found.name, found.id)


def nothing_to_do(before: CatalogSnapshot, message: str) -> Change:
    """The result of a statement that changes nothing."""
    return Change(before, message, changed=False)
