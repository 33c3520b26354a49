"""A script tried before its first statement is executed: its changes are folded over the catalog
and the list of topics, so that a statement which is wrong further down changes nothing.

What is found is what can be known beforehand: names, types, properties, topics and their
partitions, values to insert. ASSERT waits for what others do, and lists change nothing: both are
only executed.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.catalog.catalog import Catalog
from millstream.ddl.change import Definition, plan_change
from millstream.ddl.environment import ConfiguredStatement
from millstream.ddl.topics import PlannedTopics
from millstream.model.errors import MillstreamError
from millstream.service.engine import Engine
from millstream.service.execution import execute_piece
from millstream.service.session import Session
from millstream.service.statements import control, inserting
from millstream.service.statements.explain import plan_of
from millstream.service.text import ParsedStatement, locate
from millstream_parser import statements as s


class DryRun:
    """The statements of one script, one after another; `session` is the one to execute them in."""

    def __init__(self, engine: Engine, session: Session) -> None:
        self._engine = engine
        self._definitions = engine.definitions
        self._topics = PlannedTopics(engine.log)
        self._session = replace(
            session, properties=dict(session.properties), variables=dict(session.variables)
        )
        self._number = engine.commands.next_offset
        self._begun = False
        """Whether the script starts queries. Their ids are not known yet where other instances give
        statements, too."""

    @property
    def catalog(self) -> Catalog:
        """The catalog after the statements so far."""
        return self._definitions.catalog

    def check(self, piece: ParsedStatement) -> None:
        """The next statement; MillstreamError where it could not be executed."""
        try:
            self._check(piece)
        except MillstreamError as error:
            locate(error, piece.script)
            raise

    def _check(self, piece: ParsedStatement) -> None:
        statement, engine = piece.statement, self._engine
        match statement:
            case s.SetProperty() | s.DefineVariable():
                control.set_property(statement, self._session)
            case s.InsertValues():
                inserting.row_of(statement, piece.script, self.catalog, engine, self._session)
            case s.ControlQuery() if self._of_no_query(statement):
                pass
            case s.Explain(inner) if inner is not None:
                plan_of(inner, self.catalog, engine.functions, self._session.properties)
            case s.CreateConnector() | s.DropConnector() | s.RunScript() | s.Spool():
                execute_piece(engine, piece, self._session)
            case _ if isinstance(statement, Definition):
                self._define(piece)

    def _of_no_query(self, statement: s.ControlQuery) -> bool:
        """Whether a statement is about a push query, or about one whose id is not known yet."""
        if statement.query_id is None or statement.query_id in self.catalog.queries:
            return False
        unknown = self._engine.shared and self._begun
        return unknown or control.pushed(statement, self._engine) is not None

    def _define(self, piece: ParsedStatement) -> None:
        given = ConfiguredStatement(
            piece.statement, piece.text, piece.script, self._session.properties, self._number
        )
        environment = replace(self._engine.environment, topics=self._topics)
        change = plan_change(given, self._definitions, environment)
        self._begun |= bool(change.after.catalog.queries.keys() - self.catalog.queries.keys())
        self._definitions = change.after
        self._topics.apply(change.effects)
        self._number += change.changed
