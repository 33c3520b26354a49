"""Statements as immutable data, one class per form of the grammar.

Names are stored in canonical form: folded to upper case unless they were quoted. Expressions are
sqlglot trees (`expressions.py` lists the classes); they compare by structure. `span` never takes
part in comparison.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from sqlglot import exp

from .client_statements import AlterTopic as AlterTopic
from .client_statements import Backup as Backup
from .client_statements import Peek as Peek
from .client_statements import PrintTopic as PrintTopic
from .client_statements import Replay as Replay
from .client_statements import RunScript as RunScript
from .client_statements import Spool as Spool
from .failure import SyntaxFailure
from .history import Range
from .span import PropertyName as PropertyName
from .span import Span as Span

Tree = exp.Expression
"""A tree of an expression."""
PropertyValue = str | int | float | bool | exp.Expression
Properties = tuple[tuple[str, PropertyValue], ...]
"""WITH (…): upper-case names (PropertyName if they were parsed) and literal values (a decimal
literal stays an exp.Literal)."""


class ColumnRole(Enum):
    """The marker of an element of a column list."""

    VALUE = ""
    KEY = "KEY"
    PRIMARY_KEY = "PRIMARY KEY"
    HEADERS = "HEADERS"
    HEADER = "HEADER"


@dataclass(frozen=True, slots=True)
class Element:
    """`column type [marker]`; `header` is the key of HEADER('key')."""

    name: str
    type: exp.DataType
    role: ColumnRole = ColumnRole.VALUE
    header: str | None = None
    span: Span | None = field(default=None, compare=False)


# --- queries -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Duration:
    """`n UNIT`; `unit` is plural upper case: DAYS HOURS MINUTES SECONDS MILLISECONDS."""

    amount: int
    unit: str

    @property
    def milliseconds(self) -> int:
        """The length in ms."""
        return self.amount * _UNIT_MS[self.unit]


_UNIT_MS = {
    "DAYS": 86_400_000,
    "HOURS": 3_600_000,
    "MINUTES": 60_000,
    "SECONDS": 1_000,
    "MILLISECONDS": 1,
}


@dataclass(frozen=True, slots=True)
class AliasedSource:
    """A source in FROM or JOIN; `alias` is None without one. `range`: a top-level query without
    EMIT may read a part of its history. `processor`: PROCESS(name, 'processor'), with `others` for
    PROCESS(name, other, …, 'processor')."""

    name: str
    alias: str | None = None
    range: Range | None = None
    processor: str | None = None
    others: tuple[str, ...] = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Within:
    """The WITHIN clause of a stream-stream join."""

    before: Duration
    after: Duration
    grace: Duration | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """One JOIN; `kind` is INNER, LEFT, RIGHT or FULL."""

    kind: str
    source: AliasedSource
    condition: exp.Expression
    within: Within | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SelectItem:
    """`expression [AS alias]`; stars are exp.Star, `source.*` exp.Column(Star, table),
    `struct->*` exp.Dot(struct, Star)."""

    expression: exp.Expression
    alias: str | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class WindowClause:
    """`kind` is TUMBLING, HOPPING, SESSION or SLIDING; `size` is the gap of a session."""

    kind: str
    size: Duration
    advance: Duration | None = None
    retention: Duration | None = None
    grace: Duration | None = None
    name: str | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Query:
    """SELECT. `emit` is None (pull query), "CHANGES" or "FINAL". `union` are the further SELECTs of
    UNION ALL: they have the same `emit`, and neither a LIMIT nor a UNION ALL of their own."""

    items: tuple[SelectItem, ...]
    source: AliasedSource
    joins: tuple[Join, ...] = ()
    window: WindowClause | None = None
    where: exp.Expression | None = None
    group_by: tuple[exp.Expression, ...] = ()
    partition_by: tuple[exp.Expression, ...] = ()
    having: exp.Expression | None = None
    emit: str | None = None
    limit: int | None = None
    order_by: tuple[tuple[exp.Expression, bool], ...] = ()
    """Pull queries only (an extension): expression and whether it is descending."""
    union: tuple[Query, ...] = ()
    span: Span | None = field(default=None, compare=False)
    end: Span | None = field(default=None, compare=False)
    """The positions of EMIT and LIMIT."""


@dataclass(frozen=True, slots=True)
class SelectStatement:
    """A top-level query: push with `emit`, else pull. `extended` holds the DuckDB-style text of a
    pull query that goes beyond the dialect (joins, subqueries, …), None otherwise; `ranges` are
    those in it, with the position of each in the script, `beyond` the reason why the dialect has no
    such query. `bound` are the values of the parameters, with their positions."""

    query: Query | None
    extended: str | None = None
    ranges: tuple[tuple[Span, Range], ...] = field(default=(), compare=False)
    bound: tuple[tuple[Span, exp.Expression], ...] = field(default=(), compare=False)
    beyond: SyntaxFailure | None = field(default=None, compare=False)
    span: Span | None = field(default=None, compare=False)


# --- definition --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateSource:
    """CREATE [OR REPLACE] [SOURCE] STREAM|TABLE; `kind` is STREAM or TABLE."""

    kind: str
    name: str
    elements: tuple[Element, ...]
    properties: Properties = ()
    or_replace: bool = False
    if_not_exists: bool = False
    read_only: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CreateAs:
    """CREATE [OR REPLACE] STREAM|TABLE … AS SELECT."""

    kind: str
    name: str
    query: Query
    properties: Properties = ()
    or_replace: bool = False
    if_not_exists: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class DropSource:
    """DROP STREAM|TABLE."""

    kind: str
    name: str
    if_exists: bool = False
    delete_topic: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AlterSource:
    """ALTER STREAM|TABLE … ADD [COLUMN] …"""

    kind: str
    name: str
    columns: tuple[tuple[str, exp.DataType], ...]
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CreateType:
    """CREATE TYPE."""

    name: str
    type: exp.DataType
    if_not_exists: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class DropType:
    """DROP TYPE."""

    name: str
    if_exists: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CreateConnector:
    """CREATE SOURCE|SINK CONNECTOR; `kind` is SOURCE or SINK."""

    kind: str
    name: str
    properties: Properties
    if_not_exists: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class DropConnector:
    """DROP CONNECTOR."""

    name: str
    if_exists: bool = False
    span: Span | None = field(default=None, compare=False)


# --- data --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InsertValues:
    """INSERT INTO … VALUES; `columns` is empty if none were listed. `rows`: at least one."""

    target: str
    columns: tuple[str, ...]
    rows: tuple[tuple[exp.Expression, ...], ...]
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class InsertInto:
    """INSERT INTO … SELECT."""

    target: str
    query: Query
    properties: Properties = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CopyFrom:
    """COPY stream FROM 'file' (an extension; never accepted over a network)."""

    target: str
    path: str
    properties: Properties = ()
    span: Span | None = field(default=None, compare=False)


# --- control -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ControlQuery:
    """TERMINATE, PAUSE or RESUME (`action`) of a query id, or of ALL (`query_id` None)."""

    action: str
    query_id: str | None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SetProperty:
    """SET 'name' = 'value', or UNSET when `value` is None, or ALTER SYSTEM when `system`."""

    name: str
    value: str | None
    system: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class DefineVariable:
    """DEFINE name = 'value', or UNDEFINE when `value` is None."""

    name: str
    value: str | None
    span: Span | None = field(default=None, compare=False)


# --- asserts -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AssertTopic:
    """ASSERT [NOT EXISTS] TOPIC."""

    topic: str
    properties: Properties = ()
    timeout: Duration | None = None
    exists: bool = True
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AssertSchema:
    """ASSERT [NOT EXISTS] SCHEMA."""

    subject: str | None
    schema_id: int | None
    timeout: Duration | None = None
    exists: bool = True
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AssertValues:
    """ASSERT VALUES (or, with `tombstone`, ASSERT NULL VALUES … KEY)."""

    source: str
    columns: tuple[str, ...]
    values: tuple[exp.Expression, ...]
    tombstone: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AssertSource:
    """ASSERT STREAM|TABLE."""

    kind: str
    name: str
    elements: tuple[Element, ...]
    properties: Properties = ()
    span: Span | None = field(default=None, compare=False)


# --- inspection --------------------------------------------------------------------------------


class Listing(Enum):
    """The kind of objects that SHOW or LIST lists."""

    PROPERTIES = "PROPERTIES"
    TOPICS = "TOPICS"
    STREAMS = "STREAMS"
    TABLES = "TABLES"
    FUNCTIONS = "FUNCTIONS"
    CONNECTORS = "CONNECTORS"
    SOURCE_CONNECTORS = "SOURCE CONNECTORS"
    SINK_CONNECTORS = "SINK CONNECTORS"
    CONNECTOR_PLUGINS = "CONNECTOR PLUGINS"
    TYPES = "TYPES"
    VARIABLES = "VARIABLES"
    QUERIES = "QUERIES"
    TERMINATED_QUERIES = "TERMINATED QUERIES"


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW | LIST; `all` is SHOW ALL TOPICS."""

    listing: Listing
    extended: bool = False
    all: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE; `what` is SOURCE, STREAMS, TABLES, FUNCTION or CONNECTOR (`name` empty for the
    plural forms)."""

    what: str
    name: str
    extended: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a statement or a query id. `stage` (an extension: EXPLAIN (STAGE) …) is one of
    STATEMENT, PLAN, TOPOLOGY, PROGRAM, or None for the default."""

    statement: Statement | None
    query_id: str | None = None
    stage: str | None = None
    span: Span | None = field(default=None, compare=False)


Statement = (
    SelectStatement
    | CreateSource
    | CreateAs
    | DropSource
    | AlterSource
    | AlterTopic
    | CreateType
    | DropType
    | CreateConnector
    | DropConnector
    | InsertValues
    | InsertInto
    | CopyFrom
    | ControlQuery
    | SetProperty
    | DefineVariable
    | AssertTopic
    | AssertSchema
    | AssertValues
    | AssertSource
    | Show
    | Describe
    | Explain
    | PrintTopic
    | Peek
    | RunScript
    | Backup
    | Replay
    | Spool
)
