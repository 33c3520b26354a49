"""Translates DuckDB's errors into the terms of the dialect. DuckDB's own messages name relations
and functions that do not occur in the user's statement."""

from __future__ import annotations

import re

import duckdb

_NAMED = re.compile(r'[cC]olumn "([^"]+)"')


def reason(error: duckdb.Error) -> str:
    """One sentence that says what failed."""
    match error:
        case duckdb.InterruptException():
            return "It was cancelled."
        case duckdb.OutOfMemoryException():
            return "It needs more memory than the engine may use."
        case duckdb.ConversionException():
            return "A value cannot be converted to the type that is asked for."
        case duckdb.OutOfRangeException():
            return "A number is out of the range of its type."
        case duckdb.InvalidInputException() if "Division by zero" in str(error):
            return "A number is divided by zero."
        case duckdb.BinderException() | duckdb.CatalogException():
            return _unresolved(error)
        case duckdb.IOException():
            return "A file could not be read or written."
        case _:
            return "An expression in it cannot be computed."


def _unresolved(error: duckdb.Error) -> str:
    """The message for an unknown name, or for an operation on types that do not fit together."""
    named = _NAMED.search(str(error))
    if named is not None:
        return f"Column '{named[1]}' cannot be resolved, or its name is ambiguous."
    return "The types in an expression, or the columns grouped by, do not fit together."
