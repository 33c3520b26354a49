"""Finds the key columns of a push query's table, from the text of the query."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.catalog.rules import WINDOW_BOUNDS
from millstream.model.errors import MillstreamError
from millstream.scripts.text import parse_text
from millstream_cli.sessions.names import Names
from millstream_parser import print_expression
from millstream_parser.statements import Query, SelectStatement


def key_positions(text: str, columns: Sequence[str], names: Names) -> tuple[int, ...]:
    """The positions of the key's columns; none for a stream, and if some are left out."""
    try:
        [piece] = parse_text(text)
    except (MillstreamError, ValueError):
        return ()
    if not isinstance(piece.statement, SelectStatement) or piece.statement.query is None:
        return ()
    query = piece.statement.query
    wanted = _key(query, names)
    if wanted is None:
        return ()
    shown = _shown(query, columns)
    found = [shown[name] for name in wanted if name in shown]
    return tuple(found) if len(found) == len(wanted) else ()


def _key(query: Query, names: Names) -> list[str] | None:
    """The key expressions of a row, as text; None if rows do not replace each other."""
    source = names.sources.get(query.source.name)
    if query.group_by:
        windowed = query.window is not None or (source is not None and source.windowed)
        return [*map(print_expression, query.group_by), *(WINDOW_BOUNDS[:1] if windowed else ())]
    if source is None or source.kind != "TABLE" or query.joins:
        return None
    key = [column.name for column in source.columns if column.key]
    return [*key, *(WINDOW_BOUNDS[:1] if source.windowed else ())]


def _shown(query: Query, columns: Sequence[str]) -> dict[str, int]:
    """Expression -> its position in the result; a column also matches by its name."""
    found = {name: index for index, name in enumerate(columns)}
    if len(query.items) == len(columns):
        found |= {print_expression(item.expression): i for i, item in enumerate(query.items)}
    return found
