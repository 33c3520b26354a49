"""What a statement is planned with, besides the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from millstream.catalog.catalog import Catalog
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.functions.function import Catalogue
from millstream.log.log import Topic
from millstream.model.settings import EngineSettings, effective
from millstream_parser import statements as s


class Topics(Protocol):
    """The topics that exist. Every log is one."""

    def topic(self, name: str) -> Topic | None:
        """One by its name."""

    def topics(self) -> tuple[Topic, ...]:
        """All of them."""


@dataclass(frozen=True, slots=True)
class ConfiguredStatement:
    """A statement with the session properties that it was given under.

    `text` is its own, spans in it refer to `script`. `number` is part of the id of the query that
    it starts.
    """

    statement: s.Statement
    text: str
    script: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    number: int = 0

    def flag(self, name: str) -> bool:
        """The effective value of a boolean property."""
        return effective(self.properties, name) == "true"


@dataclass(frozen=True, slots=True)
class Environment:
    """What all statements of an engine have in common.

    `topics` is None for statements of the command topic. These were accepted when they were
    written, so they are not checked against the topics of today, and make and delete none.
    `shared`: other instances of the service have tasks of the same queries.
    """

    functions: Catalogue
    settings: EngineSettings
    topics: Topics | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """All that one statement is planned with: `before` is the catalog it is planned on."""

    given: ConfiguredStatement
    before: CatalogSnapshot
    environment: Environment

    @property
    def catalog(self) -> Catalog:
        """The catalog before the statement."""
        return self.before.catalog

    @property
    def topics(self) -> Topics | None:
        """The topics that exist; None where the statement is not checked against them."""
        return self.environment.topics
