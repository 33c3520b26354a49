"""Statements of PostgreSQL about the session, which are none of the dialect: BEGIN, SET, FETCH, …

They are recognised by their words. What is none of them, or names no setting, is left to the
dialect: SET '…' = '…' and SHOW STREAMS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from millstream_parser.lexemes import Lexeme, LexemeKind, code_lexemes
from millstream_server.postgres.copying import CopyFormat, copy_format
from millstream_server.postgres.refusals import NOT_SUPPORTED, PgError
from millstream_server.postgres.settings import DEFAULTS

ALL = -1
"""The count of FETCH ALL."""


@dataclass(frozen=True, slots=True)
class Begin:
    """BEGIN, START TRANSACTION."""


@dataclass(frozen=True, slots=True)
class End:
    """COMMIT, or ROLLBACK."""

    commit: bool


@dataclass(frozen=True, slots=True)
class Savepoint:
    """SAVEPOINT, RELEASE, ROLLBACK TO; `tag` is the first word."""

    tag: str


@dataclass(frozen=True, slots=True)
class SetSetting:
    """SET name = value; None for the default."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ShowSetting:
    """SHOW name, or (`name` is "all") SHOW ALL."""

    name: str


@dataclass(frozen=True, slots=True)
class ResetAll:
    """RESET ALL or DISCARD: `tag` tells which."""

    tag: str


@dataclass(frozen=True, slots=True)
class Deallocate:
    """DEALLOCATE name; None for all."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Declare:
    """DECLARE name CURSOR FOR query."""

    name: str
    query: str


@dataclass(frozen=True, slots=True)
class Fetch:
    """FETCH count FROM name; MOVE skips them."""

    name: str
    count: int
    move: bool = False


@dataclass(frozen=True, slots=True)
class CloseCursor:
    """CLOSE name; None for all."""

    name: str | None


@dataclass(frozen=True, slots=True)
class CopyOut:
    """COPY (query) TO STDOUT, COPY name TO STDOUT."""

    query: str
    given: CopyFormat = field(default_factory=CopyFormat)


@dataclass(frozen=True, slots=True)
class CopyFrom:
    """COPY table (columns) FROM STDIN: both as they were written, the columns with their
    parentheses, or empty."""

    table: str
    columns: str
    given: CopyFormat


@dataclass(frozen=True, slots=True)
class Ignored:
    """A statement without effect here, such as UNLISTEN."""

    tag: str


Command = (
    Begin
    | End
    | Savepoint
    | SetSetting
    | ShowSetting
    | ResetAll
    | Deallocate
    | Declare
    | Fetch
    | CloseCursor
    | CopyOut
    | CopyFrom
    | Ignored
)


def command_of(text: str) -> Command | None:
    """The command of one statement; None if it is none. Raises PgError for one that cannot be
    done."""
    parts = code_lexemes(text)
    while parts and parts[-1].text == ";":
        parts.pop()
    words = [part.upper for part in parts[:8]]
    match words:
        case ["BEGIN", *_] | ["START", "TRANSACTION", *_]:
            return Begin()
        case ["COMMIT" | "END", *rest] if not rest or rest[0] in ("WORK", "TRANSACTION", "AND"):
            return End(True)
        case ["ROLLBACK" | "ABORT", *rest] if "TO" not in rest[:2]:
            return End(False)
        case ["SAVEPOINT" | "RELEASE" | "ROLLBACK" as tag, *_]:
            return Savepoint(tag)
        case ["SET", *_]:
            return _set(parts[1:])
        case ["RESET", "ALL"]:
            return ResetAll("RESET")
        case ["RESET", _] if parts[1].kind is LexemeKind.WORD:
            return SetSetting(parts[1].text.lower(), None)
        case ["SHOW", *_] if (name := _setting_name(parts[1:])) is not None:
            return ShowSetting(name)
        case ["DISCARD", _]:
            return ResetAll("DISCARD " + words[1])
        case ["DEALLOCATE", *_]:
            return Deallocate(_named(parts[-1]))
        case ["DECLARE", *_] if "CURSOR" in words:
            return _declare(parts, text)
        case ["FETCH" | "MOVE", *_]:
            return _fetch(parts)
        case ["CLOSE", _]:
            return CloseCursor(_named(parts[1]))
        case ["COPY", *_]:
            return _copy(parts, text)
        case ["LISTEN" | "UNLISTEN" | "NOTIFY" | "LOCK" | "ANALYZE" | "VACUUM" as tag, *_]:
            return Ignored(tag)
    return None


def _named(part: Lexeme) -> str | None:
    return None if part.upper == "ALL" else _folded(part)


def _folded(part: Lexeme) -> str:
    return part.decoded if part.kind is LexemeKind.QUOTED else part.text.lower()


_SHOWN_BY_WORDS = {
    ("TRANSACTION", "ISOLATION", "LEVEL"): "transaction_isolation",
    ("TIME", "ZONE"): "timezone",
    ("SESSION", "AUTHORIZATION"): "session_authorization",
}


def _setting_name(parts: Sequence[Lexeme]) -> str | None:
    """The setting after SHOW; None for what the dialect shows."""
    words = tuple(part.upper for part in parts)
    name = _SHOWN_BY_WORDS.get(words, "".join(part.text for part in parts).lower())
    return name if name in DEFAULTS or name == "all" else None


def _set(parts: Sequence[Lexeme]) -> Command | None:
    """After SET. A quoted name is a property of the dialect."""
    words = [part.upper for part in parts[:6]]
    if not parts or parts[0].kind is LexemeKind.STRING:
        return None
    match words:
        case ["TRANSACTION", *_] | ["SESSION", "CHARACTERISTICS", *_] | ["CONSTRAINTS", *_]:
            return Ignored("SET")
        case ["SESSION" | "LOCAL", *_] if len(parts) > 1 and words[1] != "AUTHORIZATION":
            return _set(parts[1:])
        case ["TIME", "ZONE", *_]:
            return SetSetting("timezone", _value(parts[2:]))
        case ["NAMES", *_]:
            return SetSetting("client_encoding", _value(parts[1:]))
        case ["ROLE" | "SESSION", *_]:
            raise PgError("The user of a session cannot be changed.", code=NOT_SUPPORTED)
    marks = [number for number, part in enumerate(parts) if part.text == "=" or part.upper == "TO"]
    if not marks:
        return None
    name = "".join(part.decoded for part in parts[: marks[0]])
    return SetSetting(name.lower(), _value(parts[marks[0] + 1 :]))


def _value(parts: Sequence[Lexeme]) -> str | None:
    if [part.upper for part in parts] == ["DEFAULT"]:
        return None
    return "".join(", " if part.text == "," else part.decoded for part in parts)


def _declare(parts: Sequence[Lexeme], text: str) -> Declare:
    marks = [number for number, part in enumerate(parts) if part.upper == "FOR"]
    if len(parts) < 2 or not marks or marks[0] + 1 >= len(parts):
        raise PgError("DECLARE has no query.", hint="Write DECLARE name CURSOR FOR SELECT …")
    words = [part.upper for part in parts[2 : marks[0]]]
    if "SCROLL" in words and "NO" not in words:
        raise PgError("A cursor only goes forward.", hint="Leave out SCROLL.", code=NOT_SUPPORTED)
    return Declare(_folded(parts[1]), text[parts[marks[0] + 1].start :])


def _fetch(parts: Sequence[Lexeme]) -> Fetch:
    """FETCH [NEXT | FORWARD] [count | ALL] [FROM | IN] name."""
    move, name = parts[0].upper == "MOVE", parts[-1]
    words = [part.upper or part.text for part in parts[1:-1]]
    if words and words[-1] in ("FROM", "IN"):
        words.pop()
    if words and words[0] in ("FORWARD", "NEXT"):
        del words[0]
    match words:
        case []:
            return Fetch(_folded(name), 1, move)
        case ["ALL"]:
            return Fetch(_folded(name), ALL, move)
        case [count] if count.isdecimal() and len(count) < 10:
            return Fetch(_folded(name), int(count), move)
    raise PgError(
        "A cursor only goes forward.",
        hint="Write FETCH FORWARD count FROM name.",
        code=NOT_SUPPORTED,
    )


def _copy(parts: Sequence[Lexeme], text: str) -> Command | None:
    """COPY … TO STDOUT, whose query is the dialect's, and COPY … FROM STDIN."""
    marks = [
        number
        for number, part in enumerate(parts)
        if part.upper in ("STDIN", "STDOUT") and parts[number - 1].upper in ("FROM", "TO")
    ]
    if not marks:
        return None
    at = marks[-1]
    inner, given = parts[1 : at - 1], copy_format(parts[at + 1 :])
    if parts[at].upper == "STDIN":
        return _copy_in(inner, given, text)
    if inner and inner[0].text == "(" and inner[-1].text == ")":
        return CopyOut(text[inner[0].end : inner[-1].start], given)
    if not inner:
        raise PgError("COPY has no query.", hint="Write COPY (SELECT …) TO STDOUT")
    return CopyOut(f"SELECT * FROM {text[inner[0].start : inner[-1].end]}", given)


def _copy_in(inner: Sequence[Lexeme], given: CopyFormat, text: str) -> CopyFrom:
    opened = next((number for number, part in enumerate(inner) if part.text == "("), len(inner))
    table, columns = inner[:opened], inner[opened:]
    kinds = (LexemeKind.WORD, LexemeKind.QUOTED)
    named = table and all(part.kind in kinds or part.text == "." for part in table)
    marks = ["(", *[","] * (len(columns) // 2 - 1), ")"]
    listed_well = not columns or (
        len(columns) > 2
        and [part.text for part in columns[::2]] == marks
        and all(part.kind in kinds for part in columns[1::2])
    )
    if not named or not listed_well:
        raise PgError("COPY needs a table.", hint="Write COPY name (column, …) FROM STDIN")
    if given.csv and given.escape != given.quote:
        raise PgError("ESCAPE is the same as QUOTE here.", code=NOT_SUPPORTED)
    listed = text[columns[0].start : columns[-1].end] if columns else ""
    return CopyFrom(text[table[0].start : table[-1].end], listed, given)
