"""Conditional functions (reference: functions, sections 2 and 6) and AS_VALUE."""

from __future__ import annotations

from millstream.functions.function import ScalarFunction
from millstream.functions.scalar.entry import function

CATEGORY = "CONDITIONAL"

CONDITIONAL: tuple[ScalarFunction, ...] = (
    function(
        "COALESCE",
        CATEGORY,
        [("T, T... -> T", "coalesce({args})")],
        "The first argument that is not NULL.",
        (("COALESCE(NULL, 2, 3)", "2"), ("COALESCE('a', 'b')", "'a'")),
        null_propagates=False,
    ),
    function(
        "IFNULL",
        CATEGORY,
        [("T, T -> T", "coalesce({0}, {1})")],
        "The first argument, or the second where that is NULL.",
        (("IFNULL(NULL, 2)", "2"), ("IFNULL('a', 'b')", "'a'")),
        null_propagates=False,
    ),
    function(
        "NULLIF",
        CATEGORY,
        [("T, T -> T", "nullif({0}, {1})")],
        "NULL where both arguments are equal, otherwise the first.",
        (("NULLIF(1, 1)", "NULL"), ("NULLIF('a', 'b')", "'a'"), ("NULLIF('a', NULL)", "'a'")),
        null_propagates=False,
    ),
    function(
        "AS_VALUE",
        "OTHER",
        [("T -> T", "{0}")],
        "The argument. Copies a key column into the value.",
        (("AS_VALUE(1)", "1"), ("AS_VALUE('a')", "'a'")),
        null_propagates=False,
    ),
)
"""The functions of this category."""
