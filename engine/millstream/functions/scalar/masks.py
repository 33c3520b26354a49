"""MASK and its relatives (reference: functions, section 4)."""

from __future__ import annotations

from millstream.functions.function import ScalarFunction
from millstream.functions.scalar.entry import function

CATEGORY = "STRING"


def _mask(where: str, first: int | None) -> str:
    """Masks the characters at positions `where`; the four masks start at argument `first`."""
    defaults = ("'X'", "'x'", "'n'", "'-'")
    masks = [
        default if first is None else f"substring({{{first + i}}}, 1, 1)"
        for i, default in enumerate(defaults)
    ]
    body = (
        f"CASE WHEN _c = '' OR NOT ({where}) THEN _c"
        f" WHEN _c = upper(_c) AND _c <> lower(_c) THEN coalesce({masks[0]}, _c)"
        f" WHEN _c = lower(_c) AND _c <> upper(_c) THEN coalesce({masks[1]}, _c)"
        f" WHEN regexp_full_match(_c, '\\pN') THEN coalesce({masks[2]}, _c)"
        f" ELSE coalesce({masks[3]}, _c) END"
    )
    return f"array_to_string(list_transform(string_split({{0}}, ''), lambda _c, _i: {body}), '')"


def _mask_some(where: str) -> list[tuple[str, str]]:
    def guarded(sql: str) -> str:
        return (
            "CASE WHEN {1} IS NULL THEN NULL WHEN {1} < 0 THEN CAST(CAST("
            f"'the number of characters to mask is negative' AS INTEGER) AS VARCHAR) ELSE {sql} END"
        )

    return [
        ("STRING, INTEGER -> STRING", guarded(_mask(where, None))),
        (
            "STRING, INTEGER, STRING, STRING, STRING, STRING -> STRING",
            guarded(_mask(where, 2)),
        ),
    ]


MASKS: tuple[ScalarFunction, ...] = (
    function(
        "MASK",
        CATEGORY,
        [
            ("STRING -> STRING", _mask("TRUE", None)),
            ("STRING, STRING, STRING, STRING, STRING -> STRING", _mask("TRUE", 1)),
        ],
        "The text with upper-case letters, lower-case letters, digits and other characters "
        "replaced by X, x, n and -, or by the given characters; NULL leaves a class as it is.",
        (("MASK('Ab-9')", "'Xx-n'"), ("MASK('Ab-9', '*', NULL, '#', NULL)", "'*b-#'")),
        null_propagates=False,
    ),
    function(
        "MASK_LEFT",
        CATEGORY,
        _mask_some("_i <= {1}"),
        "The text with the first n characters masked as MASK does.",
        (("MASK_LEFT('Ab12', 2)", "'Xx12'"), ("MASK_LEFT('Ab12', -1)", "NULL")),
        null_propagates=False,
    ),
    function(
        "MASK_RIGHT",
        CATEGORY,
        _mask_some("_i > length({0}) - {1}"),
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
        _mask_some("_i > {1}"),
        "The text masked as MASK does, but for the first n characters.",
        (("MASK_KEEP_LEFT('Ab12', 2)", "'Abnn'"), ("MASK_KEEP_LEFT(NULL, 2)", "NULL")),
        null_propagates=False,
    ),
    function(
        "MASK_KEEP_RIGHT",
        CATEGORY,
        _mask_some("_i <= length({0}) - {1}"),
        "The text masked as MASK does, but for the last n characters.",
        (
            ("MASK_KEEP_RIGHT('Card 4411', 4)", "'Xxxx-4411'"),
            ("MASK_KEEP_RIGHT('a', 4)", "'a'"),
        ),
        null_propagates=False,
    ),
)
"""The functions of this file."""
