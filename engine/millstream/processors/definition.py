"""Makes an entry of the catalogue from the class of a processor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from inspect import iscoroutinefunction
from typing import Any

from millstream.functions.function import (
    OutputColumn,
    ProcessorFunction,
    ProcessorKind,
    StoreColumns,
)
from millstream.model.errors import StatementError
from millstream.plan.types import sql_type
from millstream.processors.async_processor import AsyncProcessor, AsyncTask
from millstream.processors.batches import BatchProcessor, TaskBatches
from millstream.processors.event_loop import EventLoop
from millstream.processors.names import NAME
from millstream.processors.nodes import AnyProcessor
from millstream.processors.processor import Processor
from millstream.processors.running import USERS_ERRORS, Output, TaskProcessor, Times
from millstream.processors.stores import StoreKind, TimePart
from millstream_parser import parse, statements

_ROLES = (statements.ColumnRole.KEY, statements.ColumnRole.VALUE)


def processor(
    supplier: Callable[[], AnyProcessor], *, name: str | None = None
) -> ProcessorFunction:
    """A processor for statements: `PROCESS(source, 'name')`.

    `supplier` is its class, or another function that makes a new instance for each task; `name` is
    that of the class, unless given. Pass the result to `connect(functions=[…])` or
    `Database.register`. An instance is made and initialised at once, to learn its output and its
    stores; it gets no records. Raises StatementError for a class that cannot be used.
    """
    called = name or str(getattr(supplier, "__name__", ""))
    if not NAME.fullmatch(called):
        raise StatementError(f"{called!r} cannot be the name of a processor", hint="Give a name.")
    try:
        instance = supplier()
        if not isinstance(instance, AnyProcessor):
            raise TypeError(
                f"{type(instance).__name__} is no millstream.Processor, BatchProcessor or"
                " AsyncProcessor"
            )
        if not isinstance(instance.output, str):
            raise TypeError("its output is for several children: it needs a Topology")
        return function_of(called, supplier, instance, columns_of(instance.output))
    except USERS_ERRORS as error:
        raise not_registered(called, error) from error


def function_of(
    name: str,
    supplier: Callable[[], AnyProcessor],
    instance: AnyProcessor,
    output: tuple[OutputColumn, ...],
) -> ProcessorFunction:
    """The entry of the catalogue. Initialises the instance, to learn its stores; raises whatever
    that does."""
    stores, interval_ms = _declared(instance, output)
    concurrency = instance.concurrency if isinstance(instance, AsyncProcessor) else 1
    return ProcessorFunction(
        name.upper(), output, supplier, stores, _kind(instance), interval_ms, concurrency
    )


def _kind(instance: AnyProcessor) -> ProcessorKind:
    match instance:
        case Processor():
            if iscoroutinefunction(instance.process):
                raise TypeError("its process is async: derive it from millstream.AsyncProcessor")
            return ProcessorKind.RECORDS
        case BatchProcessor():
            return ProcessorKind.BATCHES
        case AsyncProcessor():
            return ProcessorKind.ASYNC


def not_registered(name: str, error: BaseException) -> StatementError:
    """The error for a processor whose class cannot be used."""
    notes = "".join(f". {note}" for note in getattr(error, "__notes__", ()))
    return StatementError(
        f"Processor {name} cannot be registered: {type(error).__name__}: {error}{notes}"
    )


def columns_of(output: str) -> tuple[OutputColumn, ...]:
    """The columns of an output, keys first. Raises ValueError and StatementError."""
    if not output:
        raise ValueError('it declares no output, such as output = "id STRING KEY, n BIGINT"')
    (statement,) = parse(f"CREATE STREAM made ({output});")
    assert isinstance(statement, statements.CreateSource)
    if any(element.role not in _ROLES for element in statement.elements):
        raise ValueError(f"its output has a column that is no KEY and no value: {output}")
    names = [element.name for element in statement.elements]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"its output has the column {twice} twice")
    columns = (
        OutputColumn(
            element.name, sql_type(element.type, {}), element.role is statements.ColumnRole.KEY
        )
        for element in statement.elements
    )
    return tuple(sorted(columns, key=lambda column: not column.key))


def _declared(
    instance: AnyProcessor, output: Sequence[OutputColumn]
) -> tuple[tuple[StoreColumns, ...], int]:
    """The stores that an instance declares, and the shortest interval by the clock of the wall."""
    kinds: dict[str, StoreKind[Any]] = {}
    intervals: list[int] = []

    def declared(name: str, kind: StoreKind[Any]) -> NoRows:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of a store")
        if name.casefold() in map(str.casefold, kinds):
            raise ValueError(f"the names of stores differ by more than their case: '{name}'")
        kinds[name] = kind
        return NoRows()

    match instance:
        case BatchProcessor():
            TaskBatches(lambda: instance, 0, declared, output, Times())
        case Processor():
            made = TaskProcessor(lambda: instance, 0, declared, Output(output), Times())
            intervals += (each.interval_ms for each in made.context.wall_schedules)
        case AsyncProcessor():
            awaited = AsyncTask(lambda: instance, 0, declared, Output(output), Times())
            with closing(EventLoop()) as loop:
                loop.run(awaited.open())
                loop.run(awaited.close())
            intervals += (each.interval_ms for each in awaited.context.wall_schedules)
    stores = (
        StoreColumns(name, kind.key_types, kind.value_type, kind.shown, kind.life)
        for name, kind in kinds.items()
    )
    return tuple(stores), min(intervals, default=0)


class NoRows:
    """The rows of a store before there is a task."""

    def get(self, keys: Sequence[Any]) -> Mapping[Any, Any]:
        """See `StoredRows`."""
        del keys
        return {}

    def range(self, start: Any, end: Any) -> Iterator[tuple[Any, Any]]:
        """See `StoredRows`."""
        del start, end
        return iter(())

    def before(self, time: TimePart, bound: int) -> list[Any]:
        """See `StoredRows`."""
        del time, bound
        return []

    def sql(
        self, query: str, changed: Mapping[Any, Any], parameters: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        """See `StoredRows`."""
        del query, changed, parameters
        return []
