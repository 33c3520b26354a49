"""MASK and its relatives (reference: functions, section 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from millstream.functions.function import ScalarFunction, Variant
from millstream.functions.scalar.entry import function, rowwise
from millstream.functions.scalar.utf16 import masking

CATEGORY = "STRING"
_TEXT = pa.string()
_FAILS = "CAST(CAST('%s' AS INTEGER) AS VARCHAR)"


def _mask(where: str, first: int | None) -> str:
    """Masks the characters at positions `where`; the four masks start at argument `first`.

    Fails for texts beyond ASCII, whose letters and digits Python classifies as Java does.
    """
    defaults = ("'X'", "'x'", "'n'", "'-'")
    given = [f"{{{first + i}}}" for i in range(4)] if first is not None else []
    masks = [f"substring({mask}, 1, 1)" for mask in given] or list(defaults)
    body = (
        f"CASE WHEN _c = '' OR NOT ({where}) THEN _c"
        f" WHEN _c BETWEEN 'A' AND 'Z' THEN coalesce({masks[0]}, _c)"
        f" WHEN _c BETWEEN 'a' AND 'z' THEN coalesce({masks[1]}, _c)"
        f" WHEN _c BETWEEN '0' AND '9' THEN coalesce({masks[2]}, _c)"
        f" ELSE coalesce({masks[3]}, _c) END"
    )
    beyond = "".join(f" OR {mask} = ''" for mask in given)
    return (
        f"CASE WHEN strlen({{0}}) > length({{0}}){beyond}"
        f" THEN {_FAILS % 'not ASCII, or an empty mask'} ELSE array_to_string("
        f"list_transform(string_split({{0}}, ''), lambda _c, _i: {body}), '') END"
    )


def _whole(mask: Callable[..., str]) -> Callable[..., Any]:
    """MASK on Arrow columns."""

    def call(text: str | None, *masks: str | None) -> str | None:
        return None if text is None else mask(text, 0, *masks)

    return rowwise(call, _TEXT, nulls=True)


def _part(mask: Callable[..., str]) -> Callable[..., Any]:
    """One of the others on Arrow columns."""

    def call(text: str | None, n: int | None, *masks: str | None) -> str | None:
        return None if text is None or n is None else mask(text, n, *masks)

    return rowwise(call, _TEXT, nulls=True)


def _mask_some(where: str, kept: Callable[[int, int, int], bool]) -> list[Variant]:
    def guarded(sql: str) -> str:
        return (
            f"CASE WHEN {{1}} IS NULL THEN NULL WHEN {{1}} < 0 THEN"
            f" {_FAILS % 'the number of characters to mask is negative'} ELSE {sql} END"
        )

    python = _part(masking(kept))
    return [
        Variant("STRING, INTEGER -> STRING", guarded(_mask(where, None)), python=python),
        Variant(
            "STRING, INTEGER, STRING, STRING, STRING, STRING -> STRING",
            guarded(_mask(where, 2)),
            python=python,
        ),
    ]


_ALL = _whole(masking(lambda place, size, n: False))

MASKS: tuple[ScalarFunction, ...] = (
    function(
        "MASK",
        CATEGORY,
        [
            Variant("STRING -> STRING", _mask("TRUE", None), python=_ALL),
            Variant(
                "STRING, STRING, STRING, STRING, STRING -> STRING", _mask("TRUE", 1), python=_ALL
            ),
        ],
        "The text with upper-case letters, lower-case letters, digits and other characters "
        "replaced by X, x, n and -, or by the given characters; NULL leaves a class as it is.",
        (
            ("MASK('Ab-9')", "'Xx-n'"),
            ("MASK('Ab-9', '*', NULL, '#', NULL)", "'*b-#'"),
            ("MASK('Éß٣😀')", "'Xxn--'"),
            ("MASK('Ab', '', 'y', 'z', '-')", "NULL"),
        ),
        null_propagates=False,
    ),
    function(
        "MASK_LEFT",
        CATEGORY,
        _mask_some("_i <= {1}", lambda place, size, n: place >= n),
        "The text with the first n characters masked as MASK does.",
        (("MASK_LEFT('Ab12', 2)", "'Xx12'"), ("MASK_LEFT('Ab12', -1)", "NULL")),
        null_propagates=False,
    ),
    function(
        "MASK_RIGHT",
        CATEGORY,
        _mask_some("_i > length({0}) - {1}", lambda place, size, n: place < size - n),
        "The text with the last n characters masked as MASK does.",
        (
            ("MASK_RIGHT('Ab12', 2)", "'Abnn'"),
            ("MASK_RIGHT('Ab12', 3, NULL, '*', '#', NULL)", "'A*##'"),
        ),
        null_propagates=False,
    ),
    function(
        "MASK_KEEP_LEFT",
        CATEGORY,
        _mask_some("_i > {1}", lambda place, size, n: place < n),
        "The text masked as MASK does, but for the first n characters.",
        (("MASK_KEEP_LEFT('Ab12', 2)", "'Abnn'"), ("MASK_KEEP_LEFT(NULL, 2)", "NULL")),
        null_propagates=False,
    ),
    function(
        "MASK_KEEP_RIGHT",
        CATEGORY,
        _mask_some("_i <= length({0}) - {1}", lambda place, size, n: place >= size - n),
        "The text masked as MASK does, but for the last n characters.",
        (
            ("MASK_KEEP_RIGHT('Card 4411', 4)", "'Xxxx-4411'"),
            ("MASK_KEEP_RIGHT('a', 4)", "'a'"),
        ),
        null_propagates=False,
    ),
)
"""The functions of this file."""
