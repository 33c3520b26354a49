"""The permissions that a statement needs: resources and operations, from the parsed statement and
the catalog that it will run on.

Call this right before the statement runs: an earlier statement of a script may have changed the
meaning of its names. Missing sources need no permission: running the statement reports them.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from millstream.catalog.catalog import Catalog, QueryRecord
from millstream.catalog.properties import Form, read_properties
from millstream.connectors.datagen import is_datagen, normal
from millstream.model.errors import StatementError
from millstream.model.settings import DEAD_LETTERS, effective
from millstream.plan.sinks import NewSource, sink_topic_name
from millstream.query.extended import Written, sources_in, sources_of
from millstream_parser import statements as s
from millstream_parser.calls import functions_called


class Kind(Enum):
    """Kinds of resources."""

    TOPIC = "topic"
    """Records, independent of the streams and tables over them."""
    SOURCE = "source"
    """The entry of a stream or table in the catalog."""
    QUERY = "query"
    """A persistent query, with its internal topics and its state."""
    FUNCTION = "function"
    """A user function."""
    TYPE = "type"
    SUBJECT = "subject"
    CONNECTOR = "connector"
    SERVICE = "service"
    FILE = "file"
    """A file of the server: never granted."""


class Operation(Enum):
    """The operations on a resource."""

    READ = "READ"
    WRITE = "WRITE"
    CREATE = "CREATE"
    ALTER = "ALTER"
    DELETE = "DELETE"
    DESCRIBE = "DESCRIBE"
    USE = "USE"
    OPERATE = "OPERATE"


@dataclass(frozen=True, slots=True)
class Need:
    """One resource and one operation on it."""

    kind: Kind
    name: str
    operation: Operation

    def __str__(self) -> str:
        return f"{self.operation.value} {self.kind.value} {self.name}".rstrip()


@dataclass(frozen=True, slots=True)
class AccessContext:
    """The context of a statement. `topics`: the names of existing topics; `functions`: of user
    functions."""

    catalog: Catalog
    topics: Container[str] = frozenset()
    functions: Collection[str] = frozenset()
    properties: Mapping[str, str] = field(default_factory=dict)


def needs_of(statement: s.Statement, around: AccessContext, text: str) -> frozenset[Need]:
    """Everything the statement, whose own text is `text`, needs. Raises StatementError for an
    invalid WITH clause."""
    # A call has a parenthesis: texts without one, most pull queries, need no search for calls.
    called = functions_called(statement) if "(" in text else frozenset()
    found = {*_needs(statement, around), *_functions(called, around)}
    read = statement
    if isinstance(statement, s.Explain) and statement.statement is not None:
        read, text = statement.statement, _inner_text(statement, text)
    if isinstance(read, s.SelectStatement) and _read_twice(read, called):
        for name in _read_again(read, text):
            found.update(_source(name, Operation.READ, around))
            if read is not statement:
                found.update(_keepers(name, around))
    return frozenset(found)


def _inner_text(statement: s.Explain, text: str) -> str:
    """The text of the explained statement within that of the EXPLAIN."""
    inner = getattr(statement.statement, "span", None)
    if inner is None or statement.span is None:
        return text
    return text[inner.start - statement.span.start :]


def _keepers(name: str, around: AccessContext) -> Iterator[Need]:
    """EXPLAIN of a pull query reports the progress of the queries that maintain its tables."""
    for query in around.catalog.writers(name):
        yield Need(Kind.QUERY, query.id, Operation.DESCRIBE)


def _read_twice(statement: s.SelectStatement, called: Collection[str]) -> bool:
    query = statement.query
    if query is None:
        return True
    beyond = query.joins or query.group_by or query.having is not None
    return query.emit is None and bool(beyond or called)


def _read_again(statement: s.SelectStatement, text: str) -> tuple[str, ...]:
    """The engine may use another parser for the text: the sources that it finds count too."""
    try:
        return sources_of(Written.of(statement, text))
    except StatementError:
        if statement.query is None:
            raise
        return ()  # It cannot be run this way, only as the dialect parsed it.


def _needs(statement: s.Statement, around: AccessContext) -> Iterator[Need]:
    match statement:
        case s.SelectStatement(query):
            yield from _reads(query, around)
        case s.CreateSource() | s.CreateAs():
            yield from _creates(statement, around)
        case s.InsertValues(target):
            yield from _source(target, Operation.WRITE, around)
        case s.InsertInto(target, query):
            yield from _reads(query, around)
            yield from _source(target, Operation.WRITE, around)
            yield Need(Kind.QUERY, target, Operation.CREATE)
            yield from _dead_letters(around)
        case s.Explain(inner, query_id):
            if inner is not None:
                yield from _needs(inner, around)
            if isinstance(inner, s.SelectStatement) and inner.query and not inner.query.emit:
                for source in sources_in(inner.query):
                    yield from _keepers(source.name, around)
            if query_id is not None:
                yield Need(Kind.QUERY, query_id, Operation.DESCRIBE)
        case s.Describe("SOURCE", name):
            yield from _source(name, Operation.DESCRIBE, around)
        case s.Describe("CONNECTOR", name):
            yield Need(Kind.CONNECTOR, name, Operation.DESCRIBE)
        case s.Show() | s.Describe() | s.DefineVariable():
            # Lists show only visible objects; variables belong to the session.
            pass
        case s.SetProperty(system=system):
            if system:
                yield Need(Kind.SERVICE, "", Operation.ALTER)
        case s.ControlQuery(_, query_id):
            chosen = around.catalog.queries if query_id is None else (query_id,)
            for name in chosen:
                yield Need(Kind.QUERY, name, Operation.OPERATE)
        case s.AssertValues(source):
            yield from _source(source, Operation.READ, around)
        case s.AssertSource(_, name):
            yield from _source(name, Operation.DESCRIBE, around)
        case _:
            yield from _simple(statement, around)


def _simple(statement: s.Statement, around: AccessContext) -> Iterator[Need]:
    """Statements about one named object. An unknown one needs a permission that no one has."""
    match statement:
        case s.DropSource(_, name, _, delete_topic):
            yield Need(Kind.SOURCE, name, Operation.DELETE)
            if delete_topic:
                yield from _source(name, Operation.DELETE, around)
            for query in around.catalog.writers(name):
                yield Need(Kind.QUERY, query.id, Operation.OPERATE)
        case s.AlterSource(_, name):
            yield Need(Kind.SOURCE, name, Operation.ALTER)
        case s.CreateType(name):
            yield Need(Kind.TYPE, name, Operation.CREATE)
        case s.DropType(name):
            yield Need(Kind.TYPE, name, Operation.DELETE)
        case s.CreateConnector(_, name):
            yield Need(Kind.CONNECTOR, name, Operation.CREATE)
            yield from _made_up(statement, around)
        case s.DropConnector(name):
            yield Need(Kind.CONNECTOR, name, Operation.DELETE)
        case s.Peek(query_id):
            yield Need(Kind.QUERY, query_id, Operation.DESCRIBE)
            peeked = around.catalog.queries.get(query_id)
            if peeked is not None:
                yield from _kept_by(peeked, Operation.READ, around)
        case s.PrintTopic(topic):
            yield Need(Kind.TOPIC, topic, Operation.READ)
        case s.AlterTopic(topic):
            yield Need(Kind.TOPIC, topic, Operation.ALTER)
        case s.Replay(topic, letters):
            yield Need(Kind.TOPIC, letters, Operation.READ)
            yield Need(Kind.TOPIC, topic, Operation.WRITE)
        case s.Backup(place):
            yield Need(Kind.FILE, place, Operation.WRITE)
        case s.AssertTopic(topic):
            yield Need(Kind.TOPIC, topic, Operation.DESCRIBE)
        case s.AssertSchema(subject, schema_id):
            named = subject or f"id {schema_id}"
            yield Need(Kind.SUBJECT, named, Operation.DESCRIBE)
        case _:
            yield Need(Kind.FILE, getattr(statement, "path", None) or "", Operation.READ)


def _creates(statement: s.CreateSource | s.CreateAs, around: AccessContext) -> Iterator[Need]:
    replaces = statement.or_replace and statement.name in around.catalog.sources
    change = Operation.ALTER if replaces else Operation.CREATE
    yield Need(Kind.SOURCE, statement.name, change)
    if isinstance(statement, s.CreateAs):
        target = NewSource(statement.kind, statement.name, statement.properties)
        topic = sink_topic_name(target, around.properties)
        yield from _reads(statement.query, around)
        yield Need(Kind.TOPIC, topic, Operation.WRITE)
        yield Need(Kind.QUERY, statement.name, Operation.CREATE)
        yield from _dead_letters(around)
    else:
        topic = read_properties(statement.properties, Form.CREATE).topic or statement.name
        yield Need(Kind.TOPIC, topic, Operation.READ)
        if statement.read_only and statement.kind == "TABLE":
            yield Need(Kind.QUERY, statement.name, Operation.CREATE)
    if topic not in around.topics:
        yield Need(Kind.TOPIC, topic, Operation.CREATE)
    if replaces:
        for query in around.catalog.writers(statement.name):
            yield Need(Kind.QUERY, query.id, Operation.OPERATE)


def _made_up(statement: s.CreateConnector, around: AccessContext) -> Iterator[Need]:
    """The topic of a connector that makes up records, which this process writes."""
    config = normal({key: str(value) for key, value in statement.properties})
    if is_datagen(config):
        topic = config.get("kafka.topic", "")
        yield Need(Kind.TOPIC, topic, Operation.WRITE)
        if topic not in around.topics:
            yield Need(Kind.TOPIC, topic, Operation.CREATE)


def _dead_letters(around: AccessContext) -> Iterator[Need]:
    """The topic that gets the records which a persistent query skips."""
    topic = effective(around.properties, DEAD_LETTERS)
    if topic:
        yield Need(Kind.TOPIC, topic, Operation.WRITE)
        if topic not in around.topics:
            yield Need(Kind.TOPIC, topic, Operation.CREATE)


def _reads(query: s.Query | None, around: AccessContext) -> Iterator[Need]:
    if query is not None:
        for source in sources_in(query):
            yield from _source(source.name, Operation.READ, around)


def _source(name: str, operation: Operation, around: AccessContext) -> Iterator[Need]:
    """The topic behind a stream or table, or what the query of a store reads."""
    source = around.catalog.find(name)
    if source is not None:
        yield Need(Kind.TOPIC, source.topic, operation)
    elif (keeper := around.catalog.query_of_store(name)) is not None:
        yield from _kept_by(keeper, operation, around)


def _kept_by(query: QueryRecord, operation: Operation, around: AccessContext) -> Iterator[Need]:
    """What a processor keeps, and what passes it, is made of what its query reads."""
    yield Need(Kind.QUERY, query.id, Operation.DESCRIBE)
    for source in query.sources:
        yield from _source(source, operation, around)


def _functions(called: Collection[str], around: AccessContext) -> Iterator[Need]:
    """The user functions among the called ones."""
    for name in around.functions:
        if name in called:
            yield Need(Kind.FUNCTION, name, Operation.USE)
