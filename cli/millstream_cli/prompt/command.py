"""What a command of the shell is, and how its words are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from millstream.model.errors import StatementError
from millstream_cli.prompt.terminal import Terminal


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its words, the names of its arguments, and how many are allowed."""

    words: str
    arguments: str
    about: str
    least: int
    most: int
    run: Callable[[Terminal, list[str]], None]

    def named(self, typed: Sequence[str]) -> bool:
        """Whether an entry begins with its words: in any case, but for those of psql, where \\dT
        and \\dt are two."""
        wanted = self.words.split()
        begin = typed[: len(wanted)]
        if self.words.startswith("\\"):
            return list(begin) == wanted
        return [word.lower() for word in begin] == wanted


def choice(what: str, word: str, allowed: Sequence[str]) -> str:
    """A word as one of those allowed; raises StatementError for another."""
    if word.upper() not in allowed:
        raise StatementError(
            f"Invalid {what}: '{word}'", hint=f"Valid are {', '.join(allowed)}, in any case."
        )
    return word.upper()
