"""Processors that show each record to a function: `peek` and `foreach` of chains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.functions.function import OutputColumn, ProcessorFunction
from millstream.model.errors import StatementError
from millstream.processors.definition import columns_of, function_of, not_registered
from millstream.processors.names import NAME
from millstream.processors.processor import Processor, ProcessorContext, Record
from millstream.processors.running import USERS_ERRORS

Observe = Callable[[Any, Mapping[str, Any]], object]
"""Gets the key and the value of a record; what it returns is ignored."""


def observer(
    function: Observe, columns: str, *, name: str | None = None, forwards: bool = True
) -> ProcessorFunction:
    """A processor that calls `function(key, value)` for each record of a stream with these columns,
    such as "customer STRING KEY, amount DOUBLE", and then passes the record on, or with
    `forwards=False` does not.

    `peek` and `foreach` of a chain register one; pass it to `connect(functions=[…])` when the file
    of their query is opened again. `name` is that of the function, unless given. Raises
    StatementError for what cannot be used.
    """
    try:
        output = columns_of(columns)
    except USERS_ERRORS as error:
        raise not_registered(name or str(function), error) from error
    return observer_of(function, output, name=name, forwards=forwards)


def observer_of(
    function: Observe, columns: Sequence[OutputColumn], *, name: str | None = None, forwards: bool
) -> ProcessorFunction:
    """See `observer`."""
    if not callable(function):
        raise StatementError(f"{function!r} is no function of the key and the value of a record")
    called = name or str(getattr(function, "__name__", ""))
    if not NAME.fullmatch(called):
        raise StatementError(
            f"{called!r} cannot be the name of a processor", hint="Use a function that has a name."
        )
    values = tuple(column.name for column in columns if not column.key)
    observing = _Observing(function, values, forwards)
    return function_of(called, observing, observing(), tuple(columns))


@dataclass(frozen=True, slots=True)
class _Observing:
    """The supplier of an observer. `values`: the columns of the value that are passed on."""

    function: Observe
    values: tuple[str, ...]
    forwards: bool

    def __call__(self) -> _Observer:
        return _Observer(self)


class _Observer(Processor):
    """The instance for one task."""

    def __init__(self, of: _Observing) -> None:
        self._of = of

    def init(self, context: ProcessorContext) -> None:
        self._context = context

    def process(self, record: Record) -> None:
        of = self._of
        # First what goes on: the function may change the lists and dicts that it gets.
        if of.forwards:
            self._context.forward(record.key, {name: record.value[name] for name in of.values})
        of.function(record.key, record.value)
