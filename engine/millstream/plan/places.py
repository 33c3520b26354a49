"""The position in its statement that an error points to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

from sqlglot import exp

from millstream.model.errors import ConflictError, Span, StatementError
from millstream.plan.scope import location
from millstream_parser import statements
from millstream_parser.statements import ColumnRole, PropertyName

_WORD = re.compile(r"[A-Z_]+")
Place = exp.Expression | statements.Span | None
"""A part of a statement; None where the statement was not read from a text."""


@contextmanager
def placed(part: Place, text: str = "") -> Iterator[None]:
    """Errors without a position are about this part of the script `text`."""
    try:
        yield
    except (StatementError, ConflictError) as error:
        error.span = error.span or span_of(part, text)
        raise


def span_of(part: Place, text: str = "") -> Span | None:
    """The position of a part in the script `text`, which only trees need; None without one."""
    if isinstance(part, exp.Expression):
        return location(part, text)[0]
    if part is None:
        return None
    return Span(part.line, part.column, part.start, part.end)


@contextmanager
def placed_by_name(
    properties: statements.Properties,
    elements: Sequence[statements.Element] = (),
) -> Iterator[None]:
    """Errors without a position are about the first of these that they name: a property, a column,
    the value of a property. Parameters of their template count, and properties in its text and
    hint. For a header that is declared too often, it is the last one."""
    try:
        yield
    except (StatementError, ConflictError) as error:
        given = error.parameters
        named = {str(value) for value in given.values()}
        # The name of a stream or table may be that of its topic.
        values = named - {str(given["name"])} if {"noun", "name"} <= given.keys() else named
        # Such as "value format", which VALUE_FORMAT sets.
        named |= {value.upper().replace(" ", "_") for value in named if " " in value}
        named |= {word for word in _WORD.findall(f"{error.message} {error.hint}") if "_" in word}
        headers = [one.span for one in elements if one.span and _header(one) in error.message]
        found = next(chain(headers[-1:], _matching(named, values, properties, elements)), None)
        if error.span is None and found is not None:
            error.span = Span(found.line, found.column, found.start, found.end)
        raise


def _matching(
    named: set[str],
    values: set[str],
    properties: statements.Properties,
    elements: Iterable[statements.Element],
) -> Iterator[statements.Span]:
    for name, _ in properties:
        if name in named and isinstance(name, PropertyName) and name.span is not None:
            yield name.span
    for element in elements:
        listed = any(f"`{element.name}`" in value for value in named)
        if (listed or element.name in named) and element.span is not None:
            yield element.span
    for name, value in properties:
        given = {str(value), str(value).upper()}
        if values & given and isinstance(name, PropertyName) and name.span is not None:
            yield name.span


def _header(element: statements.Element) -> str:
    """How messages show the mark of a header column; of others, what is in no message."""
    match element.role:
        case ColumnRole.HEADERS:
            return " HEADERS column"
        case ColumnRole.HEADER:
            return f" HEADER('{element.header}') column"
    return "\0"
