"""Streams as chains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Unpack

from sqlglot import exp

from millstream.dsl.cogroups import write_cogroup
from millstream.dsl.declaring import declared
from millstream.dsl.expressions import Expr, column
from millstream.dsl.inlining import ALL
from millstream.dsl.joins import Within, joined, within_of
from millstream.dsl.pulls import PullQuery
from millstream.dsl.python_functions import (
    ColumnOrFunction,
    Condition,
    ValueOrFunction,
    condition_of,
    with_calls,
)
from millstream.dsl.queries import (
    ContinuousQuery,
    columns_of,
    done,
    emitting,
    filtered,
    item_of,
    items_of,
    key_trees,
    negated,
    selected,
    with_keys,
)
from millstream.dsl.statements import Connection, SinkOptions, source_of
from millstream.dsl.tables import KGroupedTable, KTable, aliased, column_of, grouped, table
from millstream.dsl.windows import Length, Window
from millstream.functions.function import OutputColumn
from millstream.model.errors import StatementError
from millstream.model.names import folded
from millstream.model.nearest import did_you_mean
from millstream.model.schema import Role, SourceKind
from millstream.query.results import Done
from millstream_parser import statements as s


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StreamQuery(ContinuousQuery):
    """A query whose result is a stream."""

    def through(self, name: str, **options: Unpack[SinkOptions]) -> KStream:
        """As `to`, and return the new stream: `through("by_town", partitions=8)` is a
        repartition."""
        self.to(name, **options)
        return stream(self.connection, name)

    def insert_into(self, name: str, *, query_id: str | None = None) -> Done:
        """INSERT INTO name: write into a stream that there is, from now on."""
        if not isinstance(query_id, str | None):
            raise TypeError(f"The id of a query is a str, not {query_id!r}")
        given = () if query_id is None else (("QUERY_ID", query_id),)
        target = folded(name, "The name of a stream")
        statement = s.InsertInto(target, emitting(self.query), given)
        return done(self.connection.execute(statement))

    def merge(self, *others: StreamQuery) -> MergedKStream:
        """The records of this and of other streams (UNION ALL), with columns of the same types in
        the same order."""
        if not others:
            raise TypeError("merge needs at least one other stream")
        wrong = next((other for other in others if not isinstance(other, StreamQuery)), None)
        if wrong is not None:
            raise TypeError(f"A stream is merged with streams, not with {type(wrong).__name__}")
        branches = [branch for other in others for branch in _branches(other.query)]
        query = replace(self.query, union=(*self.query.union, *branches))
        return MergedKStream(self.connection, query)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MergedKStream(StreamQuery):
    """The records of several streams. What should happen to them comes before `merge`, or behind
    `through`."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KStream(StreamQuery):
    """A stream and what a chain makes of it. Each method returns a new chain; nothing runs before
    `to`, `insert_into`, `subscribe` or a pull query."""

    keys: tuple[str, ...] | None = ()
    """The key columns of the result; None if their names are unknown."""

    def alias(self, name: str) -> KStream:
        """The same with another name for its columns, as `FROM stream alias`."""
        return replace(self, query=aliased(self.query, name))

    def __getitem__(self, name: str) -> Expr:
        """A column of this source, for a join: `orders["customer"]`."""
        return column_of(self.query, name)

    def filter(self, condition_: Condition) -> KStream:
        """Only records for which a condition is true."""
        return self._filter(condition_of(self.connection, condition_, "filter"))

    def filter_not(self, condition_: Condition) -> KStream:
        """Only records for which NOT of a condition is true: none for which it is NULL."""
        return self._filter(negated(self.connection, condition_, "filter_not"))

    def _filter(self, tree: exp.Expression) -> KStream:
        return replace(self, query=filtered(self.connection, self.query, tree))

    def split(self, *conditions: Condition) -> tuple[KStream, ...]:
        """A chain for the records of each condition, and one for the rest. A record is in the chain
        of the first condition that is true."""
        if not conditions:
            raise TypeError("split needs at least one condition")
        chains, rest = [], self
        for given in conditions:
            tree = condition_of(self.connection, given, "split")
            chains.append(rest._filter(tree))
            # Not NOT: that is not true either where the condition is NULL.
            branch = exp.If(this=tree, true=exp.Boolean(this=False))
            rest = rest._filter(exp.Case(this=None, ifs=[branch], default=exp.Boolean(this=True)))
        return (*chains, rest)

    def select(self, *columns: ColumnOrFunction, **named: ValueOrFunction) -> KStream:
        """These columns: names, expressions, or values that are given a name. The key must be among
        them."""
        return self._select(items_of(self.connection, columns, named, "select"))

    def map_values(self, *columns: ColumnOrFunction, **named: ValueOrFunction) -> KStream:
        """The key, and these columns."""
        items = items_of(self.connection, columns, named, "map_values")
        return self._select(with_keys(self.keys, items))

    def _select(self, items: tuple[s.SelectItem, ...]) -> KStream:
        inlined = selected(self.connection, self.query).items_of(items)
        query = replace(self.query, items=inlined)
        return replace(self, query=query, keys=columns_of(self.keys, items))

    def select_key(self, *columns: ColumnOrFunction) -> KStream:
        """The same records by another key (PARTITION BY). The columns of the key must be among
        those of a `select`."""
        if not columns:
            raise TypeError("select_key needs at least one column")
        trees = [item_of(value).expression for value in with_calls(self.connection, columns)]
        before = selected(self.connection, self.query)
        inlined = tuple(before.inlined(tree) for tree in trees)
        plain = [str(tree.name) for tree in trees if isinstance(tree, exp.Column)]
        keys = tuple(plain) if len(plain) == len(trees) else None
        return replace(self, query=replace(self.query, partition_by=inlined), keys=keys)

    def process(self, processor: str) -> KStream:
        """The rows that a registered processor makes of the records of a stream: PROCESS(stream,
        'name'). Raises StatementError for an unknown one, and behind other steps of a chain."""
        if not isinstance(processor, str):
            raise TypeError(f"process takes the name of a processor, not {processor!r}")
        source = self._plain()
        known = self.connection.functions.processor
        if processor.upper() not in known:
            raise StatementError(
                f"There is no processor '{processor}'",
                hint=did_you_mean(processor.upper(), known, "Register it with the database first."),
            )
        keys = tuple(column.name for column in known[processor.upper()].output if column.key)
        query = replace(self.query, source=replace(source, processor=processor))
        return replace(self, query=query, keys=keys)

    def _plain(self) -> s.AliasedSource:
        """The stream of a chain that has no other steps."""
        source = self.query.source
        if source.processor is not None or self.query != s.Query(ALL, source):
            raise StatementError(
                "A processor reads a stream as it is, and the chain has other steps before it",
                hint="End the query there with .through('a name'), and go on with what it returns.",
            )
        return source

    def peek(self, function: Callable[[Any, Mapping[str, Any]], object]) -> KStream:
        """Call `function(key, value)` for each record, which goes on as it is; see `foreach`."""
        return self.process(self._observed(function, forwards=True))

    def foreach(
        self,
        function: Callable[[Any, Mapping[str, Any]], object],
        name: str,
        **options: Unpack[SinkOptions],
    ) -> Done:
        """Call `function(key, value)` for each record, in a query whose stream `name` stays empty.
        `value` is a dict of the columns.

        The function is registered as a processor under its name (`millstream.observer` makes the
        same for a file that is opened again). If it raises, the policy of the query decides, and
        what it does elsewhere is done again for records that are processed again after a crash.
        Raises StatementError behind other steps."""
        return self.process(self._observed(function, forwards=False)).to(name, **options)

    def _observed(
        self, function: Callable[[Any, Mapping[str, Any]], object], *, forwards: bool
    ) -> str:
        stream = self.connection.catalog.source(self._plain().name)
        columns = (
            OutputColumn(column.name, column.type, column.role is Role.KEY)
            for column in stream.schema.columns
            if column.role is not Role.HEADERS
        )
        return self.connection.observe(function, tuple(columns), forwards=forwards)

    def group_by(self, *columns: ColumnOrFunction, **named: ValueOrFunction) -> KGroupedStream:
        """Its records by groups: by columns, or by values that are given a name."""
        query, by = grouped(self.connection, self.query, columns, named)
        return KGroupedStream(self.connection, query, by)

    def group_by_key(self) -> KGroupedStream:
        """Its records by their key."""
        return self.group_by(*(Expr(tree) for tree in key_trees(self.keys, "group_by_key")))

    def join(
        self,
        other: KStream | KTable,
        *,
        on: Expr,
        within: Within | None = None,
        grace: Length | None = None,
    ) -> KStream:
        """The pairs of a record and a matching record of another stream `within` some time, or the
        matching row of a table as of then. `grace`: how late records may be."""
        return self._join("INNER", other, on, within, grace)

    def left_join(
        self,
        other: KStream | KTable,
        *,
        on: Expr,
        within: Within | None = None,
        grace: Length | None = None,
    ) -> KStream:
        """As `join`, and the records of this stream that match nothing."""
        return self._join("LEFT", other, on, within, grace)

    def outer_join(
        self,
        other: KStream,
        *,
        on: Expr,
        within: Within,
        grace: Length | None = None,
    ) -> KStream:
        """As `join`, and the records of both streams that match nothing."""
        if isinstance(other, KTable):
            raise TypeError("outer_join is of two streams, or of two tables")
        return self._join("FULL", other, on, within, grace)

    def join_prior(
        self, other: KStream, *, on: Expr, within: Length, grace: Length | None = None
    ) -> KStream:
        """As `join` of two streams, only with records of the other one that are as old as the one
        of this stream, or older."""
        return self.join(other, on=on, within=(within, timedelta(0)), grace=grace)

    def _join(
        self,
        kind: str,
        other: KStream | KTable,
        on: Expr,
        within: Within | None,
        grace: Length | None,
    ) -> KStream:
        if not isinstance(other, KStream | KTable):
            raise TypeError(
                f"A stream is joined with a stream or a table, not with {type(other).__name__}"
            )
        if isinstance(other, KStream) and within is None:
            raise TypeError("A join of two streams needs within, such as within='10 minutes'")
        if isinstance(other, KTable) and (within is not None or grace is not None):
            raise TypeError("A join with a table has neither within nor grace")
        clause = None if within is None else within_of(within, grace)
        query = joined(kind, self.query, other.query, on, clause)
        return replace(self, query=query, keys=None)

    def to_table(self, name: str) -> KTable:
        """CREATE TABLE name over the topic of this stream: the latest record of each key, and a
        record without a value removes the key. It has no columns of headers. Raises StatementError
        behind other steps."""
        source = self.connection.catalog.source(self.query.source.name)
        statement = declared(source, self.query, SourceKind.TABLE, name)
        done(self.connection.execute(statement))
        return table(self.connection, name)

    def pull(self) -> PullQuery:
        """A pull query of this chain: the records that there are now."""
        if self.query.partition_by:
            raise StatementError("A pull query has no key: leave out select_key")
        return PullQuery(self.connection, self.query)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KGroupedStream(KGroupedTable):
    """The records of a stream by groups."""

    def cogroup(
        self, *others: KGroupedStream, into: str, **options: Unpack[SinkOptions]
    ) -> KGroupedStream:
        """The records of this and of other streams by one key, for aggregates over all of them:
        `clicks.group_by("user").cogroup(orders.group_by("customer"), into="activity")`.

        The stream `into` is created, with `options` as `to` has them. Its columns have the names of
        their streams before their own, such as CLICKS_URL, and are NULL in records of the others;
        the key has the names that it has here. Raises StatementError for groups with other steps
        before them than a filter, or with windows."""
        wrong = next((each for each in others if not isinstance(each, KGroupedStream)), None)
        if wrong is not None or not others:
            shown = "nothing" if wrong is None else type(wrong).__name__
            raise TypeError(f"cogroup takes other groups of streams, not {shown}")
        groups = [(each.query, each.by) for each in (self, *others)]
        keys = write_cogroup(self.connection, groups, into, options)
        return stream(self.connection, into).group_by(*(Expr(column(key)) for key in keys))

    def window(self, window: Window) -> KGroupedStream:
        """The groups of each window: `tumbling`, `hopping`, `session`, `sliding`. Their bounds are
        the columns WINDOWSTART and WINDOWEND."""
        if not isinstance(window, Window):
            raise TypeError(
                "window takes tumbling(…), hopping(…), session(…) or sliding(…), not"
                f" {type(window).__name__}"
            )
        return replace(self, query=replace(self.query, window=window))


def stream(connection: Connection, name: str) -> KStream:
    """The chain of a stream. Raises StatementError if there is none with the name."""
    source = source_of(connection, name, SourceKind.STREAM)
    keys = tuple(key.name for key in source.schema.key)
    return KStream(connection, s.Query(ALL, s.AliasedSource(source.name)), keys)


def _branches(query: s.Query) -> tuple[s.Query, ...]:
    return (replace(query, union=()), *query.union)
