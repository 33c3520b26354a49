"""What an engine knows of the command topic: how far it has come, and what made its catalog.

A snapshot holds only the commands that still matter. What matters is found by *lives*: each stream,
table, type and query lives from the command that makes it to the one that ends it, and every
command touches some. Commands that touch a living one matter, those that touch what a command that
matters touches or mentions (it has to be made and ended again), and no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from millstream.ddl.snapshot import CatalogSnapshot
from millstream.model.errors import ConflictError, MillstreamError
from millstream.service.command_topic.entries import Command, chained

if TYPE_CHECKING:
    from millstream.service.command_topic.quiesced import QuiescedQueries

Name = tuple[str, str]
"""Kind and name of an object of the catalog."""
Life = tuple[str, str, int]
"""The same with the number of the command that made it."""


@dataclass(frozen=True, slots=True)
class Done:
    """A command that was applied, the lives it touched, and those its text may be about."""

    command: Command
    touched: frozenset[Life]
    mentioned: frozenset[Life]


@dataclass(slots=True)
class ReplayState:
    """The commands that made the catalog, and the place up to which the topic was read.

    `replayed` counts the commands that were applied when the engine was opened.
    """

    position: int = -1
    """The offset to read next; -1 is the first there is."""
    previous: str = ""
    """The hash of the last command."""
    turn: tuple[str, int] = ("", -1)
    """The last turn that was read, and its number."""
    own: bytes = b""
    """The command that this engine has appended and not read back yet."""
    done: list[Done] = field(default_factory=list)
    unsaved: int = 0
    """Commands since the last snapshot that this engine knows of."""
    replayed: int = 0
    broken: MillstreamError | None = None
    """Why nothing behind `position` can be applied."""
    unapplied: dict[int, str] = field(default_factory=dict)
    """Commands of others that fail here, by number, and why."""
    replaced: set[str] = field(default_factory=set)
    """The queries that got another plan from a command that was replayed."""
    standing: QuiescedQueries | None = None
    """The query that the last entry has stand still."""
    _living: dict[Name, Life] = field(default_factory=dict)
    _by_word: dict[str, set[Life]] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """Whether the catalog is what all commands together make."""
        return self.broken is None and not self.unapplied

    def check(self) -> None:
        """Refuse a statement that would be judged by a catalog which is not the service's."""
        if self.broken is not None:
            raise self.broken
        for number, reason in self.unapplied.items():
            raise ConflictError(
                "This instance cannot change streams, tables and queries: it has not carried out"
                f" the statement with number {number} of its service.",
                detail=reason,
                hint="Start it again with what that statement needs (users' functions?), or give"
                " the statement to another instance.",
                code="E-CMD-UNAPPLIED",
            )

    def appended(self, value: bytes) -> None:
        """This engine has written a command."""
        self.own, self.previous = value, chained(value)

    def note(self, command: Command, before: CatalogSnapshot, after: CatalogSnapshot) -> None:
        """A command was applied."""
        mentioned = frozenset(self._mentioned(command.text))
        touched = set()
        for name in dict.fromkeys(_changed(before, after)):
            life = self._living.get(name) if _has(before, name) else None
            if life is None:
                life = self._living[name] = (*name, command.number)
                self._by_word.setdefault(_word(life), set()).add(life)
            touched.add(life)
            if not _has(after, name):
                del self._living[name]
                self._unmention(life)
        self.done.append(Done(command, frozenset(touched), mentioned))
        self.unsaved += 1

    def _mentioned(self, text: str) -> Iterator[Life]:
        """The living whose names are words of a text: too many rather than too few."""
        upper = text.upper()
        for word in {"", *re.findall(r"\w+", upper), *re.findall(r"[\w-]+", upper)}:
            yield from self._by_word.get(word, ())

    def _unmention(self, life: Life) -> None:
        same = self._by_word[_word(life)]
        same.discard(life)
        if not same:
            del self._by_word[_word(life)]

    def needed(self) -> list[Done]:
        """The commands that still matter, in their order."""
        wanted = set(self._living.values())
        kept: set[int] = set()
        while True:
            more = {
                index
                for index, done in enumerate(self.done)
                if index not in kept and not wanted.isdisjoint(done.touched)
            }
            if not more:
                return [self.done[index] for index in sorted(kept)]
            kept |= more
            for index in more:
                wanted |= self.done[index].touched | self.done[index].mentioned


def _word(life: Life) -> str:
    """The word that mentions an object; none for a name that is more than a word."""
    name = life[1].upper()
    return name if re.fullmatch(r"[\w-]+", name) else ""


def _changed(before: CatalogSnapshot, after: CatalogSnapshot) -> Iterator[Name]:
    """What is not the same object in two catalogs, or in one of them only."""
    old, new = before.catalog, after.catalog
    for kind, was, now in (
        ("source", old.sources, new.sources),
        ("type", old.types, new.types),
        ("query", old.queries, new.queries),
    ):
        if was is not now:
            yield from ((kind, name) for name in sorted(was.keys() - now.keys()))
            for name, item in now.items():
                if was.get(name) is not item:
                    yield kind, name
    for query_id in sorted(before.paused ^ after.paused):
        if query_id in new.queries:
            yield "query", query_id


def _has(snapshot: CatalogSnapshot, name: Name) -> bool:
    catalog, (kind, key) = snapshot.catalog, name
    known = {"source": catalog.sources, "type": catalog.types, "query": catalog.queries}
    return key in known[kind]
