"""The inputs of planning a statement, besides the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from millstream.catalog.catalog import Catalog
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.functions.function import Catalogue
from millstream.log.log import Topic
from millstream.model.schema_text import Schemas
from millstream.model.settings import EngineSettings, effective
from millstream_parser import statements as s


class Topics(Protocol):
    """The topics that exist. Every log implements it."""

    def topic(self, name: str) -> Topic | None:
        """The topic of a name; None if there is none."""

    def topics(self) -> tuple[Topic, ...]:
        """All topics."""


@dataclass(frozen=True, slots=True)
class ConfiguredStatement:
    """A statement with the session properties in effect when it was issued.

    `text`: the text of the statement. `script`: the text that its spans refer to. `number`: part
    of the id of the query that it starts. `issued_at`: when its command was issued, in ms.
    """

    statement: s.Statement
    text: str
    script: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    number: int = 0
    issued_at: int = 0

    def flag(self, name: str) -> bool:
        """The effective value of a boolean property."""
        return effective(self.properties, name) == "true"


@dataclass(frozen=True, slots=True)
class Environment:
    """The inputs that all statements of an engine share.

    `topics` is None for statements of the command topic. They were accepted when they were
    written, so they are not checked against the topics that exist now, and they create and delete
    none. `schemas`: the registry, None for those statements too, or if there is none. `shared`:
    other instances of the service may run tasks of the same queries.
    """

    functions: Catalogue
    settings: EngineSettings
    topics: Topics | None = None
    shared: bool = False
    schemas: Schemas | None = None


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """All inputs of planning one statement. `before`: the catalog before the statement."""

    given: ConfiguredStatement
    before: CatalogSnapshot
    environment: Environment

    @property
    def catalog(self) -> Catalog:
        """The catalog before the statement."""
        return self.before.catalog

    @property
    def topics(self) -> Topics | None:
        """The topics that exist; None if the statement is not checked against them."""
        return self.environment.topics
