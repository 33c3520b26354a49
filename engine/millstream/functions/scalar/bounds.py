"""Bounds the size of values that functions build from small ones.

DuckDB's memory limit does not count a function's intermediate results, and an interrupt waits for
the function. A function that could build gigabytes from a short statement therefore checks the size
first. A row beyond the bound fails like any other: it goes to the processing log, and a pull query
returns NULL.
"""

from __future__ import annotations

from millstream.functions.scalar.entry import joined, let

TEXT_BYTES_MAX = 1 << 20
PAD_MAX = 10_000
SERIES_MAX = 100_000
PATTERN_MAX = 1_024
ELEMENTS_MAX = 1_000_000
TEXTS_SIZE = "coalesce(list_sum(list_transform(_l, lambda _e: strlen(_e))), 0)"


def too_large(function: str, most: int) -> str:
    """SQL that fails, with the reason."""
    return f"CAST('{function} makes at most {most}' AS BIGINT)"


def bounded_texts(function: str, arguments: str, body: str, size: str = TEXTS_SIZE) -> str:
    """SQL of `body` over the list `_l` of texts, which fails where `size` exceeds the limit of a
    text. Each argument occurs once in the SQL, however often `body` uses it."""
    failing = f"CAST({too_large(function, TEXT_BYTES_MAX)} AS VARCHAR)"
    checked = f"CASE WHEN {size} > {TEXT_BYTES_MAX} THEN {failing} ELSE {body} END"
    return let("_l", f"[{arguments}]::VARCHAR[]", checked)


REPLACED_SIZE = (
    "strlen(_l[1]) + (CASE WHEN _l[2] = '' THEN length(_l[1]) + 1 ELSE"
    " (strlen(_l[1]) - strlen(replace(_l[1], _l[2], ''))) // strlen(_l[2]) END) * strlen(_l[3])"
)
"""The largest size of replacing `_l[2]` in `_l[1]` by `_l[3]`."""
_GIVEN = "list_filter(_l[2:], lambda _x: _x IS NOT NULL)"
CONCAT_WS = f"CASE WHEN _l[1] IS NOT NULL THEN {joined(_GIVEN, '_l[1]')} END"
"""The texts of `_l` after the first, joined by the first."""
SEPARATED_SIZE = TEXTS_SIZE + " + len(_l) * strlen(_l[1])"
"""The largest size of CONCAT_WS."""
