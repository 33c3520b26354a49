"""Names in Python: as in SQL, upper case unless they are between backticks."""

from __future__ import annotations

import re
from functools import lru_cache

_NEVER = re.compile("[\0\ud800-\udfff]")
STAR = ""
"""What `split_name` returns for `*`. No name is empty, but one may be the character: `` `*` ``."""
_PART = re.compile(r"`((?:[^`]|``)+)`|([A-Za-z_][A-Za-z0-9_@]*)|(\*)")
_HINT = "A name of other characters is written between backticks, as in SQL: '`my column`'."


def folded(name: str, what: str = "A name") -> str:
    """The stored form of one name. Raises TypeError or ValueError for anything else."""
    parts = split_name(name, what)
    if len(parts) > 1 or parts[0] == STAR:
        raise ValueError(f"{what} has one part, but {name!r} has more or is *. {_HINT}")
    return parts[0]


def split_name(name: str, what: str = "A name") -> tuple[str, ...]:
    """The stored form of each part of `name`, `source.name`, `*` or `source.*`. Keywords need no
    backticks."""
    if not isinstance(name, str):
        raise TypeError(f"{what} is a str, not {type(name).__name__}")
    return _split(name, what)


@lru_cache(maxsize=1024)
def _split(name: str, what: str) -> tuple[str, ...]:
    if _NEVER.search(name):
        raise ValueError(f"{what} cannot be {name!r}: NUL and half characters are in no name")
    parts: list[str] = []
    at = 0
    while (found := _PART.match(name, at)) is not None:
        quoted, plain, star = found.groups()
        parts.append(STAR if star else plain.upper() if plain else quoted.replace("``", "`"))
        at = found.end()
        if at == len(name):
            if len(parts) > 2 or STAR in parts[:-1]:
                break
            return tuple(parts)
        if name[at] != ".":
            break
        at += 1
    raise ValueError(f"{what} cannot be {name!r}. {_HINT}")
