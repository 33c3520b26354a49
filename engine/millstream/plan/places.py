"""Where in its statement a refusal points."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

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
    """Errors that do not tell their place are about this part of the script `text`."""
    try:
        yield
    except (StatementError, ConflictError) as error:
        error.span = error.span or span_of(part, text)
        raise


def span_of(part: Place, text: str = "") -> Span | None:
    """The place of a part in the script `text`, which trees alone need; None where it has none."""
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
    """Errors without a place are about the first of these that they name: a property, a column,
    the value of a property. Parameters of their template count, and properties in its text."""
    try:
        yield
    except (StatementError, ConflictError) as error:
        named = {str(value) for value in error.parameters.values()}
        named |= {word for word in _WORD.findall(error.message) if "_" in word}
        found = next(_matching(named, properties, elements), None)
        if error.span is None and found is not None:
            error.span = Span(found.line, found.column, found.start, found.end)
        raise


def _matching(
    named: set[str],
    properties: statements.Properties,
    elements: Iterable[statements.Element],
) -> Iterator[statements.Span]:
    for name, _ in properties:
        if name in named and isinstance(name, PropertyName) and name.span is not None:
            yield name.span
    for element in elements:
        shown = {element.name}
        if element.role in (ColumnRole.HEADERS, ColumnRole.HEADER):
            shown.add("HEADERS" if element.header is None else f"HEADER('{element.header}')")
        listed = any(f"`{element.name}`" in value for value in named)
        if (listed or named & shown) and element.span is not None:
            yield element.span
    for name, value in properties:
        given = {str(value), str(value).upper()}
        if named & given and isinstance(name, PropertyName) and name.span is not None:
            yield name.span
