"""`value::type`, which the dialect does not have, as CAST(value AS type).

A cast of a parameter only tells its type: it is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream_parser.lexemes import Lexeme, LexemeKind, code_lexemes
from millstream_server.postgres.values import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT8,
    INT4,
    INT8,
    NUMERIC,
    OID,
    TEXT,
    TIME,
    TIMESTAMP,
    PgType,
)

_ATOMS = (
    *(LexemeKind.WORD, LexemeKind.QUOTED, LexemeKind.STRING, LexemeKind.INTEGER),
    *(LexemeKind.DECIMAL, LexemeKind.FLOAT),
)
_DIALECT = {
    BOOL: "BOOLEAN",
    BYTEA: "BYTES",
    DATE: "DATE",
    FLOAT8: "DOUBLE",
    INT4: "INT",
    INT8: "BIGINT",
    NUMERIC: "DECIMAL",
    TEXT: "STRING",
    TIME: "TIME",
    TIMESTAMP: "TIMESTAMP",
}
_TYPES: dict[tuple[str, ...], PgType] = {
    **{(name,): INT4 for name in ("INT", "INTEGER", "INT4", "SMALLINT", "INT2")},
    **{(name,): INT8 for name in ("BIGINT", "INT8")},
    **{(name,): TEXT for name in ("TEXT", "VARCHAR", "STRING", "CHAR", "BPCHAR", "NAME", "UUID")},
    **{(name,): FLOAT8 for name in ("DOUBLE", "FLOAT8", "FLOAT", "REAL", "FLOAT4")},
    **{(name,): NUMERIC for name in ("NUMERIC", "DECIMAL")},
    **{(name,): BOOL for name in ("BOOL", "BOOLEAN")},
    **{(name,): TIMESTAMP for name in ("TIMESTAMP", "TIMESTAMPTZ")},
    **{("TIMESTAMP", which, "TIME", "ZONE"): TIMESTAMP for which in ("WITH", "WITHOUT")},
    **{("TIME", which, "TIME", "ZONE"): TIME for which in ("WITH", "WITHOUT")},
    ("CHARACTER", "VARYING"): TEXT,
    ("DOUBLE", "PRECISION"): FLOAT8,
    ("BYTEA",): BYTEA,
    ("BYTES",): BYTEA,
    ("DATE",): DATE,
    ("TIME",): TIME,
}
_BEFORE_PARENTHESES = frozenset(
    (
        *(
            "SELECT",
            "WHERE",
            "AND",
            "OR",
            "NOT",
            "IN",
            "ON",
            "HAVING",
            "BY",
            "THEN",
            "ELSE",
            "WHEN",
        ),
        *("VALUES", "AS", "LIKE", "BETWEEN", "CASE", "DISTINCT", "FROM", "EXISTS", "FILTER"),
    )
)
"""Words in front of a parenthesis that call nothing."""
_WORDS_MAX = 4
_ARGUMENTS_MAX = 6


def without_casts(text: str) -> str:
    """The text in the dialect. A cast to a type that is not known here stays, and is refused."""
    if "::" not in text:
        return text
    parts = code_lexemes(text)
    opened, units = _opened(parts), dict[int, int]()
    before: dict[int, str] = {}
    cut: list[tuple[int, int, str]] = []
    for at in range(1, len(parts) - 2):
        found = _type_at(parts, at + 2) if is_cast(parts, at) else None
        if found is None:
            continue
        kind, last, arguments, array = found
        start = units.get(at - 1, _operand(parts, at - 1, opened))
        units[last] = start
        shown = f"{_DIALECT[kind]}{arguments}"
        ended = f" AS ARRAY<{shown}>)" if array else f" AS {shown})"
        if start == at - 1 and parts[start].text.startswith("$"):
            ended = ""
        else:
            before[parts[start].start] = f"CAST({before.get(parts[start].start, '')}"
        cut.append((parts[at - 1].end, parts[last].end, ended))
    return _edited(text, [*cut, *((place, place, new) for place, new in before.items())])


def _edited(text: str, changes: Sequence[tuple[int, int, str]]) -> str:
    found, done = [], 0
    for start, end, new in sorted(changes):
        found += [text[done:start], new]
        done = end
    return "".join((*found, text[done:]))


def _opened(parts: Sequence[Lexeme]) -> dict[int, int]:
    """The opening parenthesis of each closing one."""
    found, waiting = {}, []
    for at, part in enumerate(parts):
        if part.text == "(":
            waiting.append(at)
        elif part.text == ")" and waiting:
            found[at] = waiting.pop()
    return found


def is_cast(parts: Sequence[Lexeme], at: int) -> bool:
    """Whether `::` stands here."""
    first, second = parts[at : at + 2] if at + 1 < len(parts) else (parts[at], parts[at])
    if first.text == "::":
        return True
    return first.text == ":" and second.text == ":" and first.end == second.start


def cast_type(parts: Sequence[Lexeme], at: int) -> int:
    """The OID of the type that the lexeme at a position is cast to; 0 for none."""
    if at + 2 >= len(parts) or not is_cast(parts, at + 1):
        return 0
    if [part.upper for part in parts[at + 3 : at + 4]] == ["OID"]:
        return OID.array if is_array(parts, at + 4) else 0
    found = _type_at(parts, at + 3)
    if found is None:
        return 0
    kind, _, _, array = found
    return kind.array if array else kind.oid


def _operand(parts: Sequence[Lexeme], at: int, opened: Mapping[int, int]) -> int:
    """Where the operand begins that ends here: a value, a name, a call or a parenthesis."""
    start = opened.get(at, at)
    if start != at and start and _is_function(parts[start - 1]):
        start -= 1
    while start > 1 and parts[start - 1].text == "." and parts[start - 2].kind in _ATOMS:
        start -= 2
    return start


def _is_function(part: Lexeme) -> bool:
    kinds = (LexemeKind.WORD, LexemeKind.QUOTED)
    return part.kind in kinds and part.upper not in _BEFORE_PARENTHESES


def _type_at(parts: Sequence[Lexeme], at: int) -> tuple[PgType, int, str, bool] | None:
    """The type that is written here, its last part, its precision and scale, and whether it is that
    of the elements of an array."""
    words = [part.upper for part in parts[at : at + _WORDS_MAX]]
    for count in range(len(words), 0, -1):
        kind = _TYPES.get(tuple(words[:count]))
        if kind is not None:
            last, shown = _arguments(parts, at + count - 1, kept=kind is NUMERIC)
            array = is_array(parts, last + 1)
            return kind, last + 2 * array, shown, array
    return None


def is_array(parts: Sequence[Lexeme], at: int) -> bool:
    """Whether `[]` stands here."""
    return [part.text for part in parts[at : at + 2]] == ["[", "]"]


def _arguments(parts: Sequence[Lexeme], at: int, *, kept: bool) -> tuple[int, str]:
    """What follows in parentheses: its end, and its text if it is `kept`."""
    if at + 1 >= len(parts) or parts[at + 1].text != "(":
        return at, "(38, 10)" if kept else ""
    end = at + 1
    while end < min(len(parts) - 1, at + _ARGUMENTS_MAX) and parts[end].text != ")":
        end += 1
    shown = "".join(part.text for part in parts[at + 1 : end + 1])
    return end, shown if kept else ""
