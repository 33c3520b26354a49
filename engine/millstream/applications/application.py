"""Deploys a topology of processors, and what can be done with it while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from millstream.applications.statements import Planned, planned
from millstream.catalog.catalog import Catalog
from millstream.functions.function import Catalogue, ProcessorFunction
from millstream.model.errors import ConflictError, MillstreamError, StatementError
from millstream.model.nearest import did_you_mean
from millstream.processors.composed import Composition, Peeked
from millstream.processors.composing import CompiledPart
from millstream.processors.topology import Topology
from millstream_parser import parse, print_statement
from millstream_parser import statements as s

Created = s.CreateSource | s.CreateAs


class Host(Protocol):
    """What applications need of a database."""

    @property
    def catalog(self) -> Catalog:
        """The streams and queries that there are."""

    @property
    def functions(self) -> Catalogue:
        """The functions and processors that are registered."""

    def use(self, processors: Sequence[ProcessorFunction]) -> None:
        """Register processors, in the place of those with their names."""

    def forget(self, names: Iterable[str]) -> None:
        """Register the processors with these names no more."""

    def execute(self, statement: s.Statement, *, earliest: bool = False) -> object:
        """Print the statement, and execute the text. A new query reads its topics from their first
        records if `earliest`, else as the session says. Raises MillstreamError."""


class Application:
    """A topology that runs: what `Database.deploy` returns. Its queries are persistent, so they go
    on when the program has ended and the database is opened again with `functions=
    topology.processors(name)`; `deploy` returns the application again then."""

    def __init__(
        self, name: str, host: Host, topology: Topology, parts: tuple[CompiledPart, ...]
    ) -> None:
        self.name = name
        self._host = host
        self._topology = topology
        self._parts = parts

    @property
    def topology(self) -> Topology:
        """A copy of its topology."""
        return self._topology.copy()

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams of its sources and sinks, and of those between them."""
        return planned(self._parts).names

    @property
    def queries(self) -> tuple[str, ...]:
        """The ids of its queries, those that read topics of the application last."""
        made = (self._host.catalog.find(query.name) for query in planned(self._parts).queries)
        return tuple(source.query_id for source in made if source is not None and source.query_id)

    @property
    def stores(self) -> tuple[str, ...]:
        """Its stores, as pull queries name them: `SELECT * FROM …`."""
        functions = {part.function.name: part.function for part in self._parts}
        writers = {q.query.source.processor: q.name for q in planned(self._parts).queries}
        return tuple(
            f"{stream}.{store.name}"
            for name, stream in writers.items()
            if name is not None
            for store in functions[name].stores
        )

    def describe(self) -> str:
        """The nodes of each sub-topology."""
        return self._topology.describe()

    def pause(self) -> None:
        """Process nothing until `resume`."""
        self._control("PAUSE", self.queries)

    def resume(self) -> None:
        """Go on behind what was processed before `pause`."""
        self._control("RESUME", self.queries)

    def peek(self, node: str, count: int = 10) -> list[Peeked]:
        """The last rows that have passed a node in this process since it was opened or edited, at
        most 100 for each task: those of records that are not committed yet are among them."""
        if count < 1:
            raise StatementError(f"The number of rows to look at is positive, and {count} is not")
        if node not in self._topology.nodes:
            raise StatementError(
                f"Application {self.name} has no node {node}",
                hint=did_you_mean(node, self._topology.nodes),
            )
        running = self._host.functions.processor
        for part in self._parts:
            supplier = running[part.function.name].supplier
            if node in (known.name for known in part.composition.part.nodes):
                if not isinstance(supplier, Composition):
                    raise StatementError(
                        f"The rows of {node} are not kept: its processor takes many records at a"
                        " time",
                        hint="Query the stream that its sink writes.",
                    )
                return supplier.peek(node, count)
        return []

    def edit(self, change: Callable[[Topology], object]) -> None:
        """Change the topology while it runs: `application.edit(lambda t: t.replace_processor(
        "check", Better))`.

        `change` gets a copy of the topology. Processors may get another class, and processors and
        stores may be added, and sinks where there are several; what stays keeps its state. The new
        processors begin with the record behind the last one that the old ones have committed, so
        none is lost or processed twice. Refused before anything stops: sources and sinks that
        change, and stores that vanish or get other types. Raises StatementError, ConflictError for
        a sink whose name is taken. Other instances of a service on Kafka use their own classes:
        start them again with the new ones.
        """
        edited = self._topology.copy()
        change(edited)
        parts = edited.parts(self.name)
        before, after = planned(self._parts), planned(parts)
        kept: tuple[Created, ...] = (*before.sources, *before.queries)
        changed: tuple[Created, ...] = (*after.sources, *after.queries)
        if any(statement not in changed for statement in kept):
            raise StatementError(
                f"Application {self.name} cannot be edited: sources and sinks, and what is"
                " connected to which of them, stay as they are",
                hint="Sinks can be added behind processors that write several. Else drop it and"
                " deploy the new topology, or deploy that with another name.",
            )
        added = [statement for statement in changed if statement not in kept]
        for statement in added:
            _check_free(self.name, statement.name, self._host.catalog)
        self._replace(edited, parts, before)
        for statement in added:
            self._add(statement)

    def _add(self, statement: Created) -> None:
        try:
            _create(statement, self._host)
        except MillstreamError as error:
            raise StatementError(
                f"Application {self.name} has its new processors, but {statement.name} cannot be"
                f" created: {error.message}",
                hint="Mend that, SET 'auto.offset.reset' = 'earliest', and execute:\n"
                + print_statement(statement),
            ) from error

    def drop(self, *, delete_topics: bool = False) -> None:
        """End it: its queries and their state, its streams, and the topics between its queries.
        With `delete_topics` also the topics of its sinks, but never those of its sources."""
        plan = planned(self._parts)
        for query in reversed(plan.queries):
            # The rows of all sinks are for this application alone: another one that found its
            # topic would write them again.
            delete = delete_topics or query.name in plan.between
            drop = s.DropSource("STREAM", query.name, if_exists=True, delete_topic=delete)
            self._host.execute(drop)
        for source in reversed(plan.sources):
            if not _read_by_others(self._host.catalog, source.name):
                self._host.execute(s.DropSource("STREAM", source.name, if_exists=True))

        self._host.forget(part.function.name for part in self._parts)

    def _control(self, action: str, queries: Sequence[str]) -> None:
        for query_id in queries:
            self._host.execute(s.ControlQuery(action, query_id))

    def _replace(self, edited: Topology, parts: tuple[CompiledPart, ...], plan: Planned) -> None:
        """Have the queries of processors continue with other ones."""
        old = [part.function for part in self._parts]
        self._host.use([part.function for part in parts])
        changed: list[s.CreateAs] = []
        try:
            for query in plan.queries:
                if query.query.source.processor is not None:
                    self._host.execute(replace(query, or_replace=True))
                    changed.append(query)
        except MillstreamError:
            self._host.use(old)
            for query in changed:
                self._host.execute(replace(query, or_replace=True))
            raise
        self._topology, self._parts = edited, parts

    def __repr__(self) -> str:
        return f"<application {self.name}\n{self.describe()}>"


def deploy(topology: Topology, name: str, host: Host) -> Application:
    """See `Database.deploy`."""
    topology = topology.copy()
    parts = topology.parts(name)
    plan = planned(parts)
    application = Application(name, host, topology, parts)
    running = [query for query in plan.queries if host.catalog.find(query.name) is not None]
    for query in running:
        _check_same(name, query, host.catalog)
    added = [p.function for p in parts if not _is_used(p.function, host.functions)]
    host.use(added)
    wanted: list[Created] = []
    wanted += (source for source in plan.sources if not _exists(source, host.catalog))
    wanted += (query for query in plan.queries if query not in running)
    made: list[Created] = []
    try:
        for statement in wanted:
            _create(statement, host)
            made.append(statement)
    except MillstreamError:
        for statement in reversed(made):
            delete = statement.name in plan.between
            host.execute(s.DropSource("STREAM", statement.name, delete_topic=delete))
        host.forget(function.name for function in added)
        raise
    return application


def _create(statement: Created, host: Host) -> None:
    """Create a stream. The query of a sink reads the rows of all sinks, and misses none of its own
    that were written before it began."""
    of_sink = isinstance(statement, s.CreateAs) and statement.query.source.processor is None
    host.execute(statement, earliest=of_sink)


def _check_free(name: str, added: str, catalog: Catalog) -> None:
    if catalog.find(added) is not None:
        raise ConflictError(
            f"Application {name} cannot be edited: there is a stream or table {added} already",
            hint="Give the sink another name.",
        )


def _is_used(function: ProcessorFunction, functions: Catalogue) -> bool:
    """Whether a processor is registered as it is. Raises ConflictError for another one of its
    name, which may belong to a query."""
    known = functions.processor.get(function.name)
    if known is None:
        return False
    if known.supplier != function.supplier:
        raise ConflictError(
            f"There is another processor {function.name} already",
            hint="Choose another name for the application, or edit the one that runs.",
        )
    return True


def _check_same(name: str, query: s.CreateAs, catalog: Catalog) -> None:
    """Refuse a topology other than the one that is deployed."""
    source = catalog.source(query.name)
    record = catalog.queries.get(source.query_id or "")
    if record is None or not _says(record.statement, query):
        raise ConflictError(
            f"Application {name} cannot be deployed: there is a stream {query.name} already, and it"
            " is not from this topology",
            hint="Give the sink another name, or drop what there is.",
        )


def _says(text: str, statement: Created) -> bool:
    """Whether a text is the statement, which may also replace an earlier one."""
    (found,) = parse(text)
    return isinstance(found, s.CreateAs | s.CreateSource) and (
        print_statement(replace(found, or_replace=False)) == print_statement(statement)
    )


def _exists(source: s.CreateSource, catalog: Catalog) -> bool:
    """Whether the stream of a source is there. Raises ConflictError for another one of its name."""
    found = catalog.find(source.name)
    if found is None:
        return False
    if not _says(found.statement, source):
        raise ConflictError(
            f"Source {source.name} cannot be created: there is another stream or table so called",
            hint="Give the source another name, or leave out key and value to read that one.",
        )
    return True


def _read_by_others(catalog: Catalog, name: str) -> bool:
    return any(name in source.origins for source in catalog.sources.values())
