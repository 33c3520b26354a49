"""The data model of the function catalogue.

Signatures are written as text: "ARRAY<T>, T -> BOOLEAN". `T`, `U`, `K`, `V` are type variables;
`DECIMAL` any decimal, `NUMBER` … see `signatures.parse_signature` for the notation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar

import pyarrow as pa

from millstream.model.types import SqlType


@dataclass(frozen=True, slots=True)
class Example:
    """An expression and its result in the dialect's literal notation; each is a test."""

    expression: str
    result: str


@dataclass(frozen=True, slots=True)
class Variant:
    """One signature of a scalar function and how it is computed.

    `sql` is a DuckDB template with {0}, {1}, … for the arguments, {args} for all of them and
    {rest} for all but the first (comma separated), {t} for the DuckDB type of the result and {t0},
    {t1}, … for those of the arguments; it may raise, then `exact` (or TRY(sql)) is used for the
    batch. A lambda argument i is {i} as a DuckDB lambda, and in parts {b<i>} its body and {p<i>_0},
    {p<i>_1}, … its parameters. In templates, braces only delimit placeholders.
    `python` computes on Arrow arrays; it raises where one of the rows fails (see
    `functions.attempts`). Beside `sql` it is the exact form.
    """

    signature: str
    sql: str | None = None
    exact: str | None = None
    python: Callable[..., pa.Array] | None = None
    result: Callable[[Sequence[SqlType]], SqlType] | None = None
    """Result type where the signature's text cannot express it (decimals)."""
    deterministic: bool = True


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A function of one row. `null_propagates`: any NULL argument gives NULL without a call."""

    name: str
    category: str
    variants: tuple[Variant, ...]
    description: str
    examples: tuple[Example, ...]
    null_propagates: bool = True
    deterministic: bool = True
    check: Callable[[Sequence[Any]], None] | None = None
    """Checks the constant arguments at planning time (None for an argument that is not a constant)
    and raises ValueError for a call that cannot work."""
    origin: Callable[..., Any] | None = field(default=None, compare=False)
    """The function of Python that it calls, where that says the name and the types."""
    kind: ClassVar[str] = "SCALAR"

    @property
    def signatures(self) -> tuple[str, ...]:
        """All signatures."""
        return tuple(variant.signature for variant in self.variants)


@dataclass(frozen=True, slots=True)
class AggregateVariant:
    """One signature of an aggregate.

    State columns are named `<output>$0`, `<output>$1`, … with DuckDB types from `state`. Templates
    use {x0}, {x1}… (argument columns), {s0}… (stored state columns, NULL for a new group), {d} (the
    diff), {w} (the running window: partition by key, order by `$seq`), {c0}… (literal constants).
    `running[i]` gives state column i after each row, `grouped[i]` after all rows of the batch
    (inside GROUP BY key; `{s}` columns are constant there). `result` computes the value from {s0}….
    Where SQL cannot express it exactly, `fold` computes it: (states before, rows of the group in
    order) -> states after each row; see `functions.fold`. With a fold `running` and `grouped` may
    be empty (the state after the last row of each group replaces `grouped`).

    State types and all templates may use {t} (DuckDB type of the result) and {t0}, {t1}, … (of the
    arguments). `{w}` comes after OVER; in `grouped`, {s0}… are constant within a group. The fast
    templates may raise; then `exact_running` and `exact_grouped`, if given, do not. A remaining
    error fails the query, not a row.
    """

    signature: str
    state: tuple[str, ...]
    result: str
    running: tuple[str, ...] = ()
    grouped: tuple[str, ...] = ()
    fold: Any = None
    undo: bool = False
    constants: int = 0
    """How many trailing arguments are literals."""
    exact_running: tuple[str, ...] = ()
    exact_grouped: tuple[str, ...] = ()
    undo_fold: Any = None
    """Used instead of everything else when the source is a table."""
    merge: tuple[str, ...] = ()
    """State columns of two merged sessions: {a0}… of the earlier one, {b0}… of the other. Neither
    is the state of an empty group."""
    result_type: Callable[[Sequence[SqlType]], SqlType] | None = None
    """Type of the value from the types of all arguments, where the signature's text cannot express
    it."""
    setting: str = ""
    """A property with an integer that follows the constants: {c<number of constants>}."""


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """A function of many rows."""

    name: str
    variants: tuple[AggregateVariant, ...]
    description: str
    examples: tuple[Example, ...] = ()
    origin: Callable[..., Any] | None = field(default=None, compare=False)
    """See `ScalarFunction`."""
    kind: ClassVar[str] = "AGGREGATE"
    category: ClassVar[str] = "AGGREGATE"

    @property
    def signatures(self) -> tuple[str, ...]:
        """All signatures."""
        return tuple(variant.signature for variant in self.variants)


@dataclass(frozen=True, slots=True)
class TableFunction:
    """A function from one row to many; `sql` yields a DuckDB list whose elements are the rows.

    Several signatures are separated by ";". Where `python` is given, entry i computes the lists of
    signature i on Arrow arrays instead.
    """

    name: str
    signature: str
    sql: str
    description: str
    examples: tuple[Example, ...] = ()
    python: tuple[Callable[..., pa.Array], ...] = ()
    origin: Callable[..., Any] | None = field(default=None, compare=False)
    """See `ScalarFunction`."""
    kind: ClassVar[str] = "TABLE"
    category: ClassVar[str] = "TABLE"

    @property
    def signatures(self) -> tuple[str, ...]:
        """All signatures."""
        return tuple(text.strip() for text in self.signature.split(";"))


Function = ScalarFunction | AggregateFunction | TableFunction


class ProcessorKind(Enum):
    """How a processor gets its records, as EXPLAIN says it."""

    RECORDS = "row by row"
    BATCHES = "by batches"
    ASYNC = "row by row, awaited"


@dataclass(frozen=True, slots=True)
class ProcessorFunction:
    """A processor, from the rows of a stream to those of another one: PROCESS(source, 'name').

    `output`: the columns of its rows, in order. `supplier` makes the instance for a task.
    `kind`: how it gets records; `concurrency`: how many of those of a task it may await at the same
    time. `interval_ms`: the shortest of its schedules by the clock of the wall; 0 without any.
    """

    name: str
    output: tuple[OutputColumn, ...]
    supplier: Callable[[], Any]
    stores: tuple[StoreColumns, ...]
    kind: ProcessorKind = ProcessorKind.RECORDS
    interval_ms: int = 0
    concurrency: int = 1


@dataclass(frozen=True, slots=True)
class StoreColumns:
    """What a store of a processor holds: a value for each key, which has one or more parts.

    `shown`: its columns as a table; `life`: which of its rows are still there.
    """

    name: str
    keys: tuple[SqlType, ...]
    value: SqlType
    shown: tuple[StoreColumn, ...]
    life: StoreLife | None = None


@dataclass(frozen=True, slots=True)
class StoreColumn:
    """A column of a store as a table. `text`: how SQL computes it from the columns of its state
    table."""

    name: str
    type: SqlType
    text: str
    key: bool = False


@dataclass(frozen=True, slots=True)
class StoreLife:
    """A row of a store is there as long as its time, which is the SQL text `time` in ms, is no more
    than `length_ms` before stream time. `until`: the text of the end of a row's time instead, if
    later rows end it."""

    time: str
    length_ms: int
    until: str | None = None


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the rows that a processor makes."""

    name: str
    type: SqlType
    key: bool


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All functions, by upper-case name. Immutable: `with_…` returns a copy."""

    scalar: dict[str, ScalarFunction]
    aggregate: dict[str, AggregateFunction]
    table: dict[str, TableFunction]
    processor: dict[str, ProcessorFunction] = field(default_factory=dict)

    def named(self) -> dict[str, Function]:
        """All functions of every kind."""
        return {**self.scalar, **self.aggregate, **self.table}

    def find(self, name: str) -> Function | None:
        """The function with a name (in any case), of any kind."""
        upper = name.upper()
        return self.scalar.get(upper) or self.aggregate.get(upper) or self.table.get(upper)

    def with_processors(
        self, processors: Sequence[ProcessorFunction], *, replacing: bool = False
    ) -> Catalogue:
        """A copy with these processors added, or put in the place of those of their names; raises
        ValueError if a name is taken."""
        known = dict(self.processor)
        for processor in processors:
            if processor.name in known and not replacing:
                raise ValueError(f"there is a processor {processor.name} already")
            known[processor.name] = processor
        return replace(self, processor=known)

    def without_processors(self, names: Iterable[str]) -> Catalogue:
        """A copy without the processors of these names."""
        gone = frozenset(names)
        kept = {name: known for name, known in self.processor.items() if name not in gone}
        return replace(self, processor=kept)

    def with_called(self, function: Function) -> Catalogue:
        """A copy with a function added, unless it calls the same function of Python as the one of
        its name; raises ValueError if the name is taken otherwise."""
        found = self.find(function.name)
        # Not `is`: each use of a method makes another object.
        called = function.origin
        if found is not None and called is not None and found.origin == called:
            return self
        return self if found == function else self.with_functions([function])

    def with_functions(self, functions: Sequence[Function]) -> Catalogue:
        """A copy with these functions added. Those of one name become one function with several
        signatures; raises ValueError for the name of a function of another kind or a built-in
        one."""
        scalar, aggregate, table = dict(self.scalar), dict(self.aggregate), dict(self.table)
        own: set[str] = set()
        for function in functions:
            name = function.name
            if name not in own and any(name in known for known in (scalar, aggregate, table)):
                raise ValueError(f"there is a function {name} already")
            own.add(name)
            match function:
                case ScalarFunction() if name not in (*aggregate, *table):
                    scalar[name] = replace(
                        function,
                        variants=(
                            *(scalar[name].variants if name in scalar else ()),
                            *function.variants,
                        ),
                    )
                case AggregateFunction() if name not in (*scalar, *table):
                    aggregate[name] = replace(
                        function,
                        variants=(
                            *(aggregate[name].variants if name in aggregate else ()),
                            *function.variants,
                        ),
                    )
                case TableFunction() if name not in (*scalar, *aggregate):
                    before = table.get(name)
                    table[name] = function if before is None else _more_rows(before, function)
                case _:
                    raise ValueError(f"{name} is a function of another kind")
        return replace(self, scalar=scalar, aggregate=aggregate, table=table)


def _more_rows(before: TableFunction, more: TableFunction) -> TableFunction:
    return replace(
        before,
        signature=f"{before.signature}; {more.signature}",
        python=(*before.python, *more.python),
    )
