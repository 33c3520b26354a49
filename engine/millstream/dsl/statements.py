"""What a chain needs of a database, and the statements that it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypedDict

from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Source
from millstream.functions.function import Catalogue, Function, OutputColumn
from millstream.model.errors import StatementError
from millstream.model.names import folded
from millstream.model.nearest import did_you_mean
from millstream.model.schema import SourceKind
from millstream.query.results import Result
from millstream_parser import statements as s

Stage = Literal["STATEMENT", "PLAN", "TOPOLOGY", "PROGRAM"]
"""A stage of EXPLAIN."""


class Connection(Protocol):
    """What executes the statements of chains."""

    @property
    def catalog(self) -> Catalog:
        """The streams and tables that there are."""

    def store(self, name: str) -> Source:
        """The store of a processor as a table, by its full name. Raises StatementError if there is
        none."""

    @property
    def functions(self) -> Catalogue:
        """The functions that statements may call."""

    def register(self, function: Function) -> None:
        """Register a function, unless it is. Raises ConflictError if there is another one of its
        name."""

    def observe(
        self,
        function: Callable[[Any, Mapping[str, Any]], object],
        columns: Sequence[OutputColumn],
        *,
        forwards: bool,
    ) -> str:
        """Register a processor that calls a function for each record, and with `forwards` passes
        it on; returns its name. Raises ConflictError if there is another one of the name of the
        function, and StatementError if it has none."""

    def execute(self, statement: s.Statement) -> Result:
        """Print the statement, and execute the text. Raises MillstreamError."""


class SinkOptions(TypedDict, total=False):
    """The properties of a new stream or table: WITH (…), in the order in which they are given.
    `topic` is KAFKA_TOPIC; the others have their names of SQL in lower case. `if_not_exists` and
    `or_replace` are those of CREATE."""

    topic: str
    partitions: int
    replicas: int
    retention_ms: int
    format: str
    key_format: str
    value_format: str
    key_delimiter: str
    value_delimiter: str
    wrap_single_value: bool
    timestamp: str
    timestamp_format: str
    partition_column: str
    backfill: Literal["duckdb", "spark"]
    if_not_exists: bool
    or_replace: bool


_FLAGS = ("if_not_exists", "or_replace")


def create_as(kind: str, name: str, query: s.Query, options: Mapping[str, object]) -> s.CreateAs:
    """CREATE STREAM or TABLE … AS. Raises TypeError for an unknown option or a wrong value."""
    known = SinkOptions.__annotations__
    properties: list[tuple[str, s.PropertyValue]] = []
    for option, value in options.items():
        if option not in known:
            near = did_you_mean(option, known, f"There are {', '.join(known)}.")
            raise TypeError(f"A new stream or table has no option {option}. {near}")
        if not isinstance(value, str | bool | int) or isinstance(value, bool) is not (
            option in (*_FLAGS, "wrap_single_value")
        ):
            raise TypeError(f"{option} cannot be {value!r}")
        if option not in _FLAGS:
            properties.append(("KAFKA_TOPIC" if option == "topic" else option.upper(), value))
    return s.CreateAs(
        kind,
        folded(name, f"The name of a {kind.lower()}"),
        query,
        tuple(properties),
        or_replace=options.get("or_replace") is True,
        if_not_exists=options.get("if_not_exists") is True,
    )


def source_of(connection: Connection, name: str, kind: SourceKind) -> Source:
    """A stream, or a table. Raises StatementError if there is none with the name, or it is the
    other kind."""
    found = connection.catalog.source(folded(name, f"The name of a {kind.value.lower()}"))
    if found.kind is not kind:
        other = found.kind.value.lower()
        raise StatementError(f"{found.name} is a {other}", hint=f"Use db.{other}({name!r}).")
    return found
