"""The state of an engine's replay of the command topic: its position, and the applied commands.

A snapshot contains only the commands that are still needed, which are found by *incarnations*. An
incarnation of a stream, table, type or query lasts from the command that creates it to the command
that drops it, and every command touches some incarnations. A command is needed if it touches a live
incarnation, or an incarnation that another needed command touches or mentions: a replay has to
create and drop that one again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from millstream.command_topic.entries import Command, QuiesceRequest, command_hash, lease_of
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.model.errors import ConflictError, MillstreamError

ObjectName = tuple[str, str]
"""The kind and name of an object of the catalog."""
ObjectIncarnation = tuple[str, str, int]
"""The kind and name of an object, and the number of the command that created it."""

UNAPPLIED_HINT = (
    "Restart it with what that statement needs. Functions in Python are given by"
    " connect(functions=…), --functions FOLDER, or a server's ksql.extension.dir."
)
"""What to do where a statement of the command topic cannot be executed."""


@dataclass(frozen=True, slots=True)
class AppliedCommand:
    """A command that was applied, the incarnations it touched, and those its text may mention."""

    command: Command
    touched: frozenset[ObjectIncarnation]
    mentioned: frozenset[ObjectIncarnation]


@dataclass(slots=True)
class QuiescedQuery:
    """A quiesced query. `since`: when this instance read the request, on its monotonic
    clock in ns; `requester_seen`: whether the requester has been seen alive since then."""

    request: QuiesceRequest
    since: int
    requester_seen: bool = False


@dataclass(slots=True)
class ReplayState:
    """The commands that made the catalog, and the position up to which the topic was read.

    `replayed` counts the commands that were replayed when the engine was opened.
    """

    position: int = -1
    """The offset to read next; -1 for the first retained one."""
    previous: str = ""
    """The hash of the last command."""
    lease: tuple[str, tuple[int, ...]] = ("", ())
    """The token of the last lease that was read, and the numbers that it gives."""
    unread_appends: tuple[bytes, ...] = ()
    """The values of the commands that this engine has appended and not read back yet."""
    applied: list[AppliedCommand] = field(default_factory=list)
    unsaved: int = 0
    """The number of commands since the last snapshot that this engine has read or written."""
    replayed: int = 0
    broken: MillstreamError | None = None
    """Why no entry from `position` on can be applied."""
    unapplied: dict[int, str] = field(default_factory=dict)
    """The reasons of replayed commands that failed on this instance, by command number."""
    quiesced: QuiescedQuery | None = None
    """The query that the last entry has quiesced."""
    _live: dict[ObjectName, ObjectIncarnation] = field(default_factory=dict)
    _by_word: dict[str, set[ObjectIncarnation]] = field(default_factory=dict)

    @property
    def quiesced_id(self) -> str | None:
        """The id of the quiesced query, if any."""
        return None if self.quiesced is None else self.quiesced.request.query_id

    @property
    def complete(self) -> bool:
        """Whether the catalog reflects all commands."""
        return self.broken is None and not self.unapplied

    def check(self) -> None:
        """Refuse a statement if this instance's catalog differs from the service's."""
        if self.broken is not None:
            raise self.broken
        for number, reason in self.unapplied.items():
            raise ConflictError(
                "This instance cannot change streams, tables and queries: it has not executed"
                f" the statement with number {number} of its service.",
                detail=reason,
                hint=f"{UNAPPLIED_HINT} Or send the statement to another instance.",
                code="E-CMD-UNAPPLIED",
            )

    def read_lease(self, token: str, offset: int) -> None:
        """Note a record of a lease."""
        lease, numbers = self.lease
        same = lease == lease_of(token)
        self.lease = lease_of(token), (*(numbers if same else ()), offset)

    def record_appends(self, values: Sequence[bytes]) -> None:
        """Record that this engine has appended commands."""
        self.unread_appends = (*self.unread_appends, *values)
        self.previous = command_hash(values[-1])

    def read_back(self, value: bytes) -> bool:
        """Whether a command that was read is one that this engine has appended."""
        if value not in self.unread_appends:
            return False
        self.unread_appends = self.unread_appends[self.unread_appends.index(value) + 1 :]
        return True

    def record(self, command: Command, before: CatalogSnapshot, after: CatalogSnapshot) -> None:
        """Record that a command was applied."""
        mentioned = frozenset(self._mentioned(command.text))
        touched = set()
        for name in dict.fromkeys(_changed(before, after)):
            incarnation = self._live.get(name) if _contains(before, name) else None
            if incarnation is None:
                incarnation = self._live[name] = (*name, command.number)
                self._by_word.setdefault(_word_of(incarnation), set()).add(incarnation)
            touched.add(incarnation)
            if not _contains(after, name):
                del self._live[name]
                self._remove_word(incarnation)
        self.applied.append(AppliedCommand(command, frozenset(touched), mentioned))
        self.unsaved += 1

    def _mentioned(self, text: str) -> Iterator[ObjectIncarnation]:
        """The live incarnations whose names are words of a text. May return too many, never too
        few."""
        upper = text.upper()
        for word in {"", *re.findall(r"\w+", upper), *re.findall(r"[\w-]+", upper)}:
            yield from self._by_word.get(word, ())

    def _remove_word(self, incarnation: ObjectIncarnation) -> None:
        incarnations = self._by_word[_word_of(incarnation)]
        incarnations.discard(incarnation)
        if not incarnations:
            del self._by_word[_word_of(incarnation)]

    def needed(self) -> list[AppliedCommand]:
        """The commands that are still needed to make the catalog, in their order."""
        needed = set(self._live.values())
        indexes: set[int] = set()
        while True:
            more = {
                index
                for index, command in enumerate(self.applied)
                if index not in indexes and not needed.isdisjoint(command.touched)
            }
            if not more:
                return [self.applied[index] for index in sorted(indexes)]
            indexes |= more
            for index in more:
                needed |= self.applied[index].touched | self.applied[index].mentioned


def _word_of(incarnation: ObjectIncarnation) -> str:
    """The word by which a text mentions an object; "" for a name that is not one word."""
    name = incarnation[1].upper()
    return name if re.fullmatch(r"[\w-]+", name) else ""


def _changed(before: CatalogSnapshot, after: CatalogSnapshot) -> Iterator[ObjectName]:
    """The names of the objects that differ between two catalogs, or exist in one of them only."""
    old, new = before.catalog, after.catalog
    for kind, old_objects, new_objects in (
        ("source", old.sources, new.sources),
        ("type", old.types, new.types),
        ("query", old.queries, new.queries),
    ):
        if old_objects is not new_objects:
            dropped = sorted(old_objects.keys() - new_objects.keys())
            yield from ((kind, name) for name in dropped)
            for name, item in new_objects.items():
                if old_objects.get(name) is not item:
                    yield kind, name
    for query_id in sorted(before.paused ^ after.paused):
        if query_id in new.queries:
            yield "query", query_id


def _contains(snapshot: CatalogSnapshot, name: ObjectName) -> bool:
    catalog, (kind, key) = snapshot.catalog, name
    objects = {"source": catalog.sources, "type": catalog.types, "query": catalog.queries}
    return key in objects[kind]
