"""The catalogue of built-in functions."""

from __future__ import annotations

from functools import cache

from millstream.functions.aggregates import AGGREGATES
from millstream.functions.function import Catalogue, ScalarFunction
from millstream.functions.scalar import SCALAR
from millstream.functions.tables import TABLES


@cache
def builtin_catalogue() -> Catalogue:
    """Every built-in function by upper-case name. Users' functions are added to a copy."""
    scalar: dict[str, ScalarFunction] = {}
    for function in SCALAR:
        if function.name in scalar:
            raise ValueError(f"scalar function {function.name} is listed twice")
        scalar[function.name] = function
    return Catalogue(
        scalar,
        {function.name: function for function in AGGREGATES},
        {function.name: function for function in TABLES},
    )
