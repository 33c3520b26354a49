"""Checks a script before its first statement is executed, so that an invalid statement further down
changes nothing. The changes are applied to copies of the catalog and the list of topics.

The check covers what can be determined beforehand: names, types, properties, topics and their
partitions, and inserted values. ASSERT depends on other clients, and SHOW changes nothing: neither
is checked here.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.catalog.catalog import Catalog
from millstream.ddl.change import Definition, plan_change
from millstream.ddl.environment import ConfiguredStatement
from millstream.ddl.inference import with_columns
from millstream.ddl.topics import PlannedTopics
from millstream.model.errors import MillstreamError
from millstream.query.session import Session
from millstream.scripts.text import ParsedStatement, locate
from millstream.service.backing_up import check_local
from millstream.service.engine import Engine
from millstream.service.execution import execute_statement
from millstream.statements import connectors, control, inserting
from millstream.statements.explain import plan_of
from millstream.statements.replay import check_replayable
from millstream.statements.topic_settings import check_alterable
from millstream_parser import statements as s


class DryRun:
    """Checks the statements of one script in order. `session`: where they will be executed."""

    def __init__(self, engine: Engine, session: Session) -> None:
        self._engine = engine
        self._definitions = engine.registry.definitions
        self._topics = PlannedTopics(engine.log)
        self._session = replace(
            session, properties=dict(session.properties), variables=dict(session.variables)
        )
        self._number = engine.command_topic.log.next_offset
        self._starts_queries = False
        """Whether the script starts queries. Their ids are not known yet if other instances issue
        statements, too."""

    @property
    def catalog(self) -> Catalog:
        """The catalog after the statements so far."""
        return self._definitions.catalog

    def check(self, parsed: ParsedStatement) -> None:
        """Check the next statement; raises MillstreamError if it could not be executed."""
        try:
            self._check(parsed)
        except MillstreamError as error:
            locate(error, parsed.script)
            raise

    def _check(self, parsed: ParsedStatement) -> None:
        statement, engine = parsed.statement, self._engine
        match statement:
            case s.SetProperty() | s.DefineVariable():
                control.set_property(statement, self._session)
            case s.InsertValues():
                inserting.rows_to_insert(
                    statement, parsed.script, self.catalog, engine.inserts, self._session
                )
            case s.ControlQuery() if self._not_in_catalog(statement):
                pass
            case s.Explain(inner) if inner is not None:
                plan_of(inner, self.catalog, engine.functions, self._session.properties)
            case s.AlterTopic():
                check_alterable(statement, self._topics, engine.settings)
            case s.Replay():
                check_replayable(statement, self._topics, engine.settings)
            case s.Backup():
                check_local(self._session)
            case s.CreateConnector():
                connectors.check_connector(statement, engine.connectors)
            case s.DropConnector():
                connectors.configured(engine.connectors)
            case s.RunScript() | s.Spool():
                execute_statement(engine, parsed, self._session)
            case _ if isinstance(statement, Definition):
                self._define(parsed)

    def _not_in_catalog(self, statement: s.ControlQuery) -> bool:
        """Whether a statement names a push query, or a query whose id is not known yet."""
        if statement.query_id is None or statement.query_id in self.catalog.queries:
            return False
        unknown = self._engine.shared and self._starts_queries
        return unknown or control.push_query_id(statement, self._engine.push_queries) is not None

    def _define(self, parsed: ParsedStatement) -> None:
        configured = ConfiguredStatement(
            parsed.statement, parsed.text, parsed.script, self._session.properties, self._number
        )
        configured = with_columns(configured, self._engine.schemas)
        environment = replace(self._engine.registry.environment, topics=self._topics)
        change = plan_change(configured, self._definitions, environment)
        self._starts_queries |= bool(
            change.after.catalog.queries.keys() - self.catalog.queries.keys()
        )
        self._definitions = change.after
        self._topics.apply(change.effects)
        self._number += change.changed
