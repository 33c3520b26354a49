"""How large the values may get that functions make of small ones.

DuckDB's memory limit does not count what a function makes while it runs, and an interrupt waits for
it: a function that could make gigabytes out of a short statement looks at the size before. Beyond
it the row fails like any other: it goes to the processing log, a pull query has NULL.
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
    """SQL of `body` over the list `_l` of texts, which fails where `size` is more than a text may
    have. Each argument stands in the SQL once, whatever `body` does with it."""
    failing = f"CAST({too_large(function, TEXT_BYTES_MAX)} AS VARCHAR)"
    checked = f"CASE WHEN {size} > {TEXT_BYTES_MAX} THEN {failing} ELSE {body} END"
    return let("_l", f"[{arguments}]::VARCHAR[]", checked)


REPLACED_SIZE = (
    "strlen(_l[1]) + (CASE WHEN _l[2] = '' THEN length(_l[1]) + 1 ELSE"
    " (strlen(_l[1]) - strlen(replace(_l[1], _l[2], ''))) // strlen(_l[2]) END) * strlen(_l[3])"
)
"""What replacing `_l[2]` in `_l[1]` by `_l[3]` makes, at most."""
_GIVEN = "list_filter(_l[2:], lambda _x: _x IS NOT NULL)"
CONCAT_WS = f"CASE WHEN _l[1] IS NOT NULL THEN {joined(_GIVEN, '_l[1]')} END"
"""The texts of `_l` after the first with the first between them."""
SEPARATED_SIZE = TEXTS_SIZE + " + len(_l) * strlen(_l[1])"
"""What CONCAT_WS makes, at most."""
