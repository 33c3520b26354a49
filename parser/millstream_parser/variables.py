"""`${name}` -> value, in the text of a script before it is parsed.

A value can only become one name, one literal, or part of a quoted text: it cannot end a string,
start a comment or add a clause.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from millstream_grammar.keywords import HARD

from .tokens import Lines

_PIECE = re.compile(
    r"""(?P<skipped>--[^\n\r]* | /\*.*?\*/)
      | (?P<quoted>'(?:[^']|'')*' | `(?:[^`]|``)*` | "(?:[^"]|"")*")
      | (?P<escape>\$(?=\$\{))?\$\{(?P<name>[A-Za-z_][A-Za-z0-9_@]*)\}""",
    re.VERBOSE | re.DOTALL,
)
_VARIABLE = re.compile(r"(?P<escape>\$(?=\$\{))?\$\{(?P<name>[A-Za-z_][A-Za-z0-9_@]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_@]*")
_PART = re.compile(r"[A-Za-z0-9_@]+")
_LITERAL = re.compile(
    r"""'(?:[^']|'')*' | `(?:[^`]|``)+` | "(?:[^"]|"")+"
      | [+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)? | true | false | null""",
    re.VERBOSE | re.IGNORECASE,
)


def substitute(text: str, variables: Mapping[str, str]) -> str:
    """The script with its variables replaced. Names are found whatever their case; an unknown
    variable stays unchanged, and `$${name}` becomes a literal `${name}`.

    Raises SyntaxFailure if a value outside quotes is neither a name nor a literal.
    """
    if "${" not in text:
        return text
    folded = {name.upper(): value for name, value in variables.items()}

    def replace(found: re.Match[str]) -> str:
        if found["skipped"] is not None:
            return found.group()
        if found["quoted"] is not None:
            return _in_quotes(found["quoted"], folded)
        if found["escape"]:
            return found.group()[1:]
        value = folded.get(found["name"].upper())
        return found.group() if value is None else _outside(text, found, value)

    return _PIECE.sub(replace, text)


def _in_quotes(quoted: str, variables: Mapping[str, str]) -> str:
    """Inside quotes a value may be any text: its quotes are doubled."""
    mark = quoted[0]

    def replace(found: re.Match[str]) -> str:
        if found["escape"]:
            return found.group()[1:]
        value = variables.get(found["name"].upper())
        return found.group() if value is None else value.replace(mark, mark * 2)

    return mark + _VARIABLE.sub(replace, quoted[1:-1]) + mark


def _outside(text: str, found: re.Match[str], value: str) -> str:
    """Outside of quotes a value must be one name or one literal, or a part of a longer name."""
    before, after = text[: found.start()][-1:], text[found.end() :][:1]
    if _PART.fullmatch(before) or _PART.fullmatch(after) or before == "}" or after == "$":
        if _PART.fullmatch(value):
            return value
    elif _LITERAL.fullmatch(value):
        # A sign must not meet another one: two would start a comment.
        return f" {value}" if value.startswith("-") else value
    elif _NAME.fullmatch(value) and value.upper() not in HARD:
        return value
    raise Lines.of(text).failure(
        f"The value of the variable {found['name']} cannot stand here: {value!r}",
        found.start(),
        found.end(),
        "Outside of quotes a value is one name, number, quoted string, TRUE, FALSE or NULL.",
    )
