"""Names: folding on the way in, quoting on the way out."""

from __future__ import annotations

import re

from sqlglot import exp

from millstream_grammar.keywords import HARD

_PLAIN = re.compile(r"[A-Z_][A-Z0-9_@]*")


def is_plain(name: str) -> bool:
    """Whether a stored name can be written without quotes and is read back unchanged."""
    return _PLAIN.fullmatch(name) is not None and name not in HARD


def quote(name: str) -> str:
    """A stored name as it must be written: plain, or between backticks."""
    return name if is_plain(name) else "`" + name.replace("`", "``") + "`"


def quote_string(text: str) -> str:
    """A text as a string literal."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> exp.Identifier:
    """A stored name as a tree node. `quoted` depends on the name and not on how it was typed, so
    that `A` and `"A"` are the same column and compare equal."""
    return exp.Identifier(this=name, quoted=not is_plain(name))
