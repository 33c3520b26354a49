"""The types of a statement's parameters, where a client asks for them instead of telling them.

PostgreSQL infers each from where it stands. Here it is the column beside it: in a comparison, in IN
and BETWEEN, or in the row of an INSERT; a number after LIMIT; text everywhere else.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from millstream.catalog.source import Source
from millstream_parser.lexemes import Lexeme, LexemeKind, code_lexemes
from millstream_parser.parameters import Value
from millstream_server.postgres.arguments import ARRAYS
from millstream_server.postgres.casts import cast_type
from millstream_server.postgres.relations import columns_of
from millstream_server.postgres.spelling import Spelling
from millstream_server.postgres.values import INT8, NUMERIC, TEXT, pg_type

_PLACE = re.compile(r"\$([1-9][0-9]{0,4})")
_COMPARED = ("=", "<>", "!=", "<", ">", "<=", ">=", "LIKE")
_SAMPLES: dict[int, Value] = {
    **dict.fromkeys((20, 21, 23, 26), 0),
    **dict.fromkeys((700, 701), 0.0),
    16: False,
    17: b"",
    1082: datetime.date(2000, 1, 1),
    1083: datetime.time(),
    1114: datetime.datetime(2000, 1, 1),
    1184: datetime.datetime(2000, 1, 1),
    1700: Decimal(0),
}
_SAMPLES |= {array: [_SAMPLES.get(element, "")] for array, element in ARRAYS.items()}


def parameter_types(
    text: str, given: Sequence[int], sources: Sequence[Source], spelling: Spelling
) -> tuple[int, ...]:
    """An OID for each parameter: what the client says, or what the text says."""
    parts = code_lexemes(text)
    places = {at: number for at, part in enumerate(parts) if (number := _number(part))}
    found = dict(enumerate(given, 1))
    inserted = dict(_inserted(parts, places, sources, spelling))
    names = _columns(parts, sources, spelling)
    for at, number in places.items():
        if not found.get(number):
            column = _beside(parts, at)
            named = None if column is None else names.get(spelling.meant_name(column))
            told = cast_type(parts, at) or inserted.get(number) or named
            found[number] = told or _limit(parts, at) or TEXT.oid
    return tuple(found.get(number) or TEXT.oid for number in range(1, max(found, default=0) + 1))


def samples(types: Sequence[int]) -> list[Value]:
    """A value of each type, by which a statement is described."""
    return [_SAMPLES.get(kind, "") for kind in types]


def _number(part: Lexeme) -> int:
    found = _PLACE.fullmatch(part.text) if part.kind is LexemeKind.WORD else None
    return int(found[1]) if found is not None else 0


def _columns(
    parts: Sequence[Lexeme], sources: Sequence[Source], spelling: Spelling
) -> dict[str, int]:
    """The types of the columns of the sources that the text names; of a name with two, none."""
    written = {spelling.meant_name(part) for part in parts if _is_name(part)}
    found: dict[str, set[int]] = {}
    for source in sources:
        if source.name in written:
            for column in columns_of(source):
                found.setdefault(column.name, set()).add(pg_type(column.type).oid)
    found.setdefault("ROWTIME", {INT8.oid})
    return {name: min(types) for name, types in found.items() if len(types) == 1}


def _is_name(part: Lexeme) -> bool:
    return part.kind in (LexemeKind.WORD, LexemeKind.QUOTED)


def _beside(parts: Sequence[Lexeme], at: int) -> Lexeme | None:
    """The column that a parameter is compared with."""
    before, after = parts[max(0, at - 2) : at], parts[at + 1 : at + 5]
    if len(before) == 2 and before[1].text.upper() in (*_COMPARED, "BETWEEN"):
        return before[0] if _is_name(before[0]) and before[0].upper != "NOT" else None
    if len(after) > 1 and after[0].text in _COMPARED:
        # A name may have its source in front.
        name = after[3] if len(after) > 3 and after[2].text == "." else after[1]
        return name if _is_name(name) else None
    start = at - 1
    while start > 0 and (parts[start].text == "," or _number(parts[start])):
        start -= 1
    if start > 1 and parts[start].text == "(" and parts[start - 1].upper == "IN":
        name = (
            parts[start - 3] if parts[start - 2].upper == "NOT" and start > 2 else parts[start - 2]
        )
        return name if _is_name(name) else None
    if start > 2 and parts[start].upper == "AND" and parts[start - 2].upper == "BETWEEN":
        return parts[start - 3] if _is_name(parts[start - 3]) else None
    return None


def _limit(parts: Sequence[Lexeme], at: int) -> int:
    before = parts[at - 1].upper if at else ""
    if before in ("LIMIT", "OFFSET"):
        return INT8.oid
    return NUMERIC.oid if before in ("+", "-", "*", "/", "%") else 0


def _inserted(
    parts: Sequence[Lexeme], places: dict[int, int], sources: Sequence[Source], spelling: Spelling
) -> Iterator[tuple[int, int]]:
    """The parameters of INSERT INTO … VALUES, by the columns that they are put into."""
    words = [part.upper for part in parts]
    if words[:2] != ["INSERT", "INTO"] or "VALUES" not in words or len(parts) < 4:
        return
    begins = words.index("VALUES")
    target = next((p for p in reversed(parts[2 : _opening(parts, begins)]) if _is_name(p)), None)
    name = "" if target is None else spelling.meant_name(target)
    source = next((source for source in sources if source.name == name), None)
    if source is None:
        return
    types = {column.name: pg_type(column.type).oid for column in columns_of(source)}
    named = [spelling.meant_name(p) for p in parts[_opening(parts, begins) : begins] if _is_name(p)]
    columns = named or [column.name for column in source.schema.columns]
    depth = column = 0
    for at in range(begins + 1, len(parts)):
        text = parts[at].text
        depth += (text == "(") - (text == ")")
        if text == "(" and depth == 1:
            column = 0
        elif text == "," and depth == 1:
            column += 1
        elif at in places and depth == 1 and column < len(columns):
            yield places[at], types.get(columns[column], TEXT.oid)


def _opening(parts: Sequence[Lexeme], end: int) -> int:
    return next((at for at in range(end) if parts[at].text == "("), end)
