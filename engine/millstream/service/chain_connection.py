"""Executes the statements of chains: each is printed, and its text executed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Source
from millstream.cluster.stores import source_named
from millstream.functions.function import Catalogue, Function, OutputColumn, ProcessorFunction
from millstream.model.errors import ConflictError
from millstream.processors.observing import Observe, observer_of
from millstream.query.results import Result
from millstream.query.session import Session
from millstream.scripts.text import parse_text
from millstream.service.engine import Engine
from millstream.service.execution import execute_all
from millstream_parser import print_statement
from millstream_parser import statements as s


@dataclass(frozen=True, slots=True, eq=False)
class ChainConnection:
    """The `Connection` of chains over an engine, with the session of its database."""

    engine: Engine
    session: Session

    @property
    def catalog(self) -> Catalog:
        """The streams and tables that there are."""
        return self.engine.catalog

    def store(self, name: str) -> Source:
        """The store of a processor as a table, by its full name. Raises StatementError if there is
        none."""
        return source_named(self.engine.registry, name)

    @property
    def functions(self) -> Catalogue:
        """The functions that statements may call."""
        return self.engine.functions

    def register(self, function: Function) -> None:
        """Register a function, unless it is. Raises ConflictError if there is another one of its
        name."""
        registry = self.engine.registry
        try:
            registry.functions = registry.functions.with_called(function)
        except ValueError as error:
            raise ConflictError(
                f"The function {function.name} cannot be used: {error}.",
                hint="Queries may call the other one, so give this one another name.",
            ) from error

    def observe(self, function: Observe, columns: Sequence[OutputColumn], *, forwards: bool) -> str:
        """Register a processor that shows records to a function, and return its name."""
        made = observer_of(function, columns, forwards=forwards)
        found = self.functions.processor.get(made.name)
        if found is None:
            registry = self.engine.registry
            registry.functions = registry.functions.with_processors([made])
        elif found != made:
            raise ConflictError(
                f"There is another processor {made.name} already, or one for other columns.",
                hint="Queries may use it, so give this function another name.",
            )
        return made.name

    def use(self, processors: Sequence[ProcessorFunction]) -> None:
        """Register processors, in the place of those with their names."""
        registry = self.engine.registry
        registry.functions = registry.functions.with_processors(processors, replacing=True)

    def forget(self, names: Iterable[str]) -> None:
        """Register the processors with these names no more."""
        registry = self.engine.registry
        registry.functions = registry.functions.without_processors(names)

    def execute(self, statement: s.Statement, *, earliest: bool = False) -> Result:
        """Print a statement and execute the text, so that what is recorded, and what errors point
        at, is text that a client could have sent. Variables are not substituted in it. `earliest`:
        a new query reads its topics from their first records."""
        extended = self.session.flag("millstream.query.pull.extended.enabled")
        parsed = parse_text(print_statement(statement), extended_pull=extended)
        session = self.session
        if earliest:
            properties = {**session.properties, "auto.offset.reset": "earliest"}
            session = replace(session, properties=properties)
        (result,) = execute_all(self.engine, parsed, session)
        return result
