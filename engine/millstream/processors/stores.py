"""State of processors: key-value stores, one for each task.

A store is a table of the query's state. What a task reads is kept in memory, and what it changes is
written to the table at the end of each run, so a run that fails has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

from millstream.model.errors import StatementError
from millstream.model.types import SqlType
from millstream.plan.types import sql_type
from millstream.processors.values import accept, class_of, is_mutable, is_ordered
from millstream_parser import SyntaxFailure, parse_type

KEPT_MAX = 200_000
"""The keys of a store and task that are kept in memory."""


@dataclass(frozen=True, slots=True)
class KeyValueStore:
    """What a store holds: a value of one SQL type for each key, e.g. KeyValueStore("STRING",
    "TIMESTAMP"). `ProcessorContext.store` returns the store itself.

    Keys are of a type with an order: any but DOUBLE, ARRAY, MAP and STRUCT. Raises StatementError
    for other types.
    """

    key: str
    value: str

    def __post_init__(self) -> None:
        try:
            ordered = is_ordered(self.key_type)
            accept(self.value_type)
        except (StatementError, SyntaxFailure) as error:
            raise StatementError(
                f"A store cannot hold {self.key} and {self.value}: {error}"
            ) from None
        if not ordered:
            raise StatementError(
                f"A store cannot have keys of type {self.key_type}",
                hint="Keys are BOOLEAN, INTEGER, BIGINT, DECIMAL, STRING, BYTES, DATE, TIME or"
                " TIMESTAMP.",
            )

    @property
    def key_type(self) -> SqlType:
        """The type of the keys."""
        return sql_type(parse_type(self.key), {})

    @property
    def value_type(self) -> SqlType:
        """The type of the values."""
        return sql_type(parse_type(self.value), {})


class StoredRows(Protocol):
    """What a store's table held for the task at the start of the run."""

    def get(self, keys: Sequence[Any]) -> Mapping[Any, Any]:
        """The values of those of the keys that are there."""

    def range(self, start: Any, end: Any) -> Iterator[tuple[Any, Any]]:
        """Keys and values in the order of the keys, from `start` on (None: the first) up to, and
        without, `end` (None: all)."""


class _Gone:
    """In the place of a value: the key is not there."""


_GONE = _Gone()


class Store:
    """A key-value store of one task. It belongs to its processor and its thread."""

    def __init__(self, name: str, kind: KeyValueStore, rows: StoredRows) -> None:
        self.name = name
        self.rows = rows
        self._kind = kind
        self._accept_key, self._accept_value = accept(kind.key_type), accept(kind.value_type)
        self._key_class = class_of(kind.key_type)
        self._copied = is_mutable(kind.value_type)
        self._kept: dict[Any, Any] = {}
        """Values as they are now, of keys that were read or changed; _GONE for those that are not
        there."""
        self._changed: dict[Any, None] = {}
        """The keys changed by this run, in the order of their first change."""
        self._expected: Sequence[Any] = ()
        self._undo: dict[Any, tuple[Any, bool]] | None = None
        """Since `mark`: what was kept of each key that was changed, and whether it had been changed
        by this run before."""

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key; `default` if it is not there."""
        # Another type may be equal, such as True and 1, and is refused whether or not 1 is kept.
        found = self._kept.get(key) if type(key) is self._key_class else None
        if found is None:
            known = self._key(key)
            if known not in self._kept:
                expected, self._expected = self._expected, ()
                self._fetch([known, *self._possible(expected)])
            found = self._kept[known]
        if found is _GONE:
            return default
        return self._accept_value(found) if self._copied else found

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key; None removes it."""
        known = self._key(key)
        try:
            new = _GONE if value is None else self._accept_value(value)
        except ValueError as error:
            raise self._refused("value", error) from None
        if self._undo is not None and known not in self._undo:
            self._undo[known] = (self._kept.get(known), known in self._changed)
        self._kept[known] = new
        self._changed[known] = None

    def delete(self, key: Any) -> Any:
        """Remove a key; the value it had, or None."""
        before = self.get(key)
        if before is not None:
            self.put(key, None)
        return before

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Set the value of a key that is not there. The value it has, or None if it was absent."""
        before = self.get(key)
        if before is None:
            self.put(key, value)
        return before

    def range(self, start: Any = None, end: Any = None) -> Iterator[tuple[Any, Any]]:
        """Keys and values as they are now, in the order of the keys, from `start` on, up to and
        without `end`. Changes made while it is read are not in it."""
        start = None if start is None else self._key(start)
        end = None if end is None else self._key(end)
        changed = sorted(
            key
            for key in self._changed
            if (start is None or key >= start) and (end is None or key < end)
        )
        now = {key: self._kept[key] for key in changed}
        return self._merged(self.rows.range(start, end), now)

    def _merged(
        self, stored: Iterator[tuple[Any, Any]], now: dict[Any, Any]
    ) -> Iterator[tuple[Any, Any]]:
        """`now`: the changed keys in their order."""
        left = iter(now.items())
        changed = next(left, None)
        for key, value in stored:
            while changed is not None and changed[0] < key:
                yield from self._shown(*changed)
                changed = next(left, None)
            if key not in now:
                yield key, value
        if changed is not None:
            for pair in chain([changed], left):
                yield from self._shown(*pair)

    def _shown(self, key: Any, value: Any) -> Iterator[tuple[Any, Any]]:
        if value is not _GONE:
            yield key, self._accept_value(value) if self._copied else value

    def expect(self, keys: Sequence[Any]) -> None:
        """Keys that this run may ask for: they are read together with the first one that it does
        ask for and that is not kept. Those that the store cannot have are ignored."""
        self._expected = keys

    def _possible(self, keys: Sequence[Any]) -> Iterator[Any]:
        for key in keys:
            with suppress(ValueError):
                if (known := self._accept_key(key)) is not None:
                    yield known

    def _fetch(self, keys: Sequence[Any]) -> None:
        missing = [key for key in dict.fromkeys(keys) if key not in self._kept]
        if missing:
            found = self.rows.get(missing)
            self._kept |= {key: found.get(key, _GONE) for key in missing}

    def mark(self) -> None:
        """What is changed from now on, `undo` takes back."""
        self._undo = {}

    def undo(self) -> None:
        """Take back what was changed since `mark`."""
        for key, (kept, changed) in (self._undo or {}).items():
            if kept is None:
                del self._kept[key]
            else:
                self._kept[key] = kept
            if not changed:
                del self._changed[key]
        self._undo = {}

    def changes(self) -> list[tuple[Any, Any]]:
        """The changed keys with their values, None for removed ones. The caller writes them; a new
        run begins."""
        found = [(key, None if (v := self._kept[key]) is _GONE else v) for key in self._changed]
        self._changed = {}
        if len(self._kept) > KEPT_MAX:
            self._kept = {}
        return found

    def close(self) -> None:
        """Refuse everything from now on."""
        self._kept, self._changed = {}, {}
        self._accept_key, self.rows = _closed, _CLOSED

    def _key(self, key: Any) -> Any:
        try:
            known = self._accept_key(key)
        except ValueError as error:
            raise self._refused("key", error) from None
        if known is None:
            raise TypeError(f"store '{self.name}' has no key None")
        return known

    def _refused(self, what: str, why: ValueError) -> TypeError:
        return TypeError(f"store '{self.name}' does not take this {what}: {why}")


def _closed(*_: Any) -> Any:
    raise RuntimeError("the store is closed: its task was given up")


class _Closed:
    """The rows of a closed store."""

    get = range = staticmethod(_closed)


_CLOSED = _Closed()


@dataclass(slots=True)
class TaskStores:
    """The stores of one task. `rows`: what each held when the task was opened; `declared`: whether
    `init` has ended, which alone may add stores."""

    rows: Callable[[str, KeyValueStore], StoredRows]
    named: dict[str, Store] = field(default_factory=dict)
    declared: bool = False

    def add(self, name: str, kind: KeyValueStore) -> Store:
        """A new store; raises RuntimeError behind `init`, ValueError for a name that is taken."""
        if self.declared:
            raise RuntimeError("only init may call store")
        if name in self.named:
            raise ValueError(f"there is a store '{name}' already")
        self.named[name] = Store(name, kind, self.rows(name, kind))
        return self.named[name]

    def mark(self) -> None:
        """See `Store.mark`."""
        for store in self.named.values():
            store.mark()

    def undo(self) -> None:
        """See `Store.undo`."""
        for store in self.named.values():
            store.undo()

    def expect(self, keys: Sequence[Any]) -> None:
        """See `Store.expect`."""
        for store in self.named.values():
            store.expect(keys)

    def close(self) -> None:
        """Close all of them."""
        for store in self.named.values():
            store.close()
