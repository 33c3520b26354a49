"""A script tried out before its first statement is executed: over copies of the catalog and of the
list of topics, so that one which is wrong further down changes nothing.

What is found is what can be known beforehand: names, types, properties, topics and their
partitions, values to insert. ASSERT waits for what others do, and lists change nothing: both are
only executed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pyarrow as pa

from millstream.catalog.catalog import Catalog
from millstream.log.log import Log, Topic, WatchedLog
from millstream.model.errors import MillstreamError
from millstream.service import queries
from millstream.service.engine import Engine
from millstream.service.execution import execute_piece
from millstream.service.session import Session
from millstream.service.statements import control, definitions, inserting
from millstream.service.statements.explain import plan_of
from millstream.service.text import Piece, locate
from millstream_parser import statements as s


class Rehearsal:
    """The statements of one script, one after another. `session` is that they are to run in."""

    def __init__(self, engine: Engine, session: Session) -> None:
        self._engine = engine.beside()
        self._topics = _Topics(engine.log)
        self._engine.log = cast(WatchedLog[pa.Table], self._topics)
        self._session = replace(
            session, properties=dict(session.properties), variables=dict(session.variables)
        )
        self._number = engine.commands.next_offset
        self._begun = False
        """Whether the script begins queries; what they are called is not known among others."""

    @property
    def catalog(self) -> Catalog:
        """As it is behind the statements so far."""
        return self._engine.catalog

    def check(self, piece: Piece) -> None:
        """The next statement; MillstreamError where it could not be executed."""
        try:
            self._check(piece)
        except MillstreamError as error:
            locate(error, piece.script)
            raise

    def _check(self, piece: Piece) -> None:
        statement, engine = piece.statement, self._engine
        match statement:
            case s.SetProperty() | s.DefineVariable():
                control.set_property(statement, self._session)
            case s.InsertValues():
                inserting.row_of(statement, piece.script, engine, self._session)
            case s.ControlQuery(_, str(query_id)) if query_id not in engine.catalog.queries:
                if not (engine.shared and self._begun):
                    control.pushed(statement, engine)
            case s.Explain(inner) if inner is not None:
                plan_of(inner, engine, self._session)
            case s.CreateConnector() | s.DropConnector() | s.RunScript() | s.Spool():
                execute_piece(engine, piece, self._session)
            case (
                s.CreateSource() | s.CreateAs() | s.InsertInto() | s.DropSource() | s.AlterSource()
                | s.CreateType() | s.DropType() | s.ControlQuery()
            ):  # fmt: skip
                self._define(piece)

    def _define(self, piece: Piece) -> None:
        engine, before = self._engine, self.catalog
        _, unwritten = definitions.apply(
            piece, engine, self._session, self._number, replaying=True, write=self._written
        )
        if unwritten:
            self._written()
        match piece.statement:
            case s.CreateSource(_, name) as statement if engine.catalog is not before:
                definitions.source_topic(statement, engine.catalog.sources[name], engine)
            case s.DropSource(_, name, delete_topic=True) if name in before.sources:
                self._topics.delete_topic(before.sources[name].topic)
        for query_id in engine.catalog.queries.keys() - before.queries.keys():
            self._begun = True
            planned = engine.plans[query_id]
            queries.make_sink_topic(engine, planned)
            queries.topology_of(engine, query_id, planned)

    def _written(self, *, deleting: Topic | None = None) -> None:
        self._number += 1


class _Topics:
    """The topics of a log, and what would become of them."""

    def __init__(self, log: Log[pa.Table]) -> None:
        self._log = log
        self._changed: dict[str, Topic | None] = {}

    def topic(self, name: str) -> Topic | None:
        """One by its name."""
        return self._changed[name] if name in self._changed else self._log.topic(name)

    def topics(self) -> tuple[Topic, ...]:
        """All of them."""
        kept = (topic for topic in self._log.topics() if topic.name not in self._changed)
        return (*kept, *(topic for topic in self._changed.values() if topic is not None))

    def create_topic(self, topic: Topic) -> None:
        """Note that one would be made."""
        self._changed[topic.name] = topic

    def delete_topic(self, name: str) -> None:
        """Note that one would be deleted."""
        self._changed[name] = None
