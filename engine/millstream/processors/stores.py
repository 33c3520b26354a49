"""State of processors: key-value stores, one for each task.

A store is a table of the query's state. What a task reads is kept in memory, and what it changes is
written to the table at the end of each run, so a run that fails has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeVar, runtime_checkable

from millstream.functions.function import StoreColumn, StoreLife
from millstream.model.errors import StatementError
from millstream.model.types import SqlType
from millstream.plan.types import sql_type
from millstream.processors.values import Accept, accept, class_of, is_mutable, is_ordered
from millstream_parser import SyntaxFailure, parse_type

KEPT_MAX = 200_000
"""The keys of a store and task that are kept in memory."""


class TimePart(Enum):
    """Where the time of a row of a store is, in ms."""

    KEY = "key_1"
    """The second part of its key."""
    VALUE = 'value."AT"'
    """A field of its value."""


Opened = TypeVar("Opened", covariant=True)


class StoreKind(Protocol[Opened]):
    """What a store holds, and how it is used."""

    @property
    def key_types(self) -> tuple[SqlType, ...]:
        """The types of the parts of its keys."""

    @property
    def value_type(self) -> SqlType:
        """The type of its values."""

    @property
    def shown(self) -> tuple[StoreColumn, ...]:
        """Its columns as a table."""

    @property
    def life(self) -> StoreLife | None:
        """Which rows are still there; None: all."""

    def opened(self, store: Store, now: Callable[[], int]) -> Opened:
        """The store of a task as its users see it. `now`: stream time in ms."""


@dataclass(frozen=True, slots=True)
class KeyValueStore:
    """A value of one SQL type for each key, e.g. KeyValueStore("STRING", "TIMESTAMP").
    `ProcessorContext.store` returns the store itself.

    Keys are of a type with an order: any but DOUBLE, ARRAY, MAP and STRUCT. Raises StatementError
    for other types.
    """

    key: str
    value: str

    def __post_init__(self) -> None:
        types_of(self.key, self.value)

    @property
    def key_types(self) -> tuple[SqlType, ...]:
        """See `StoreKind`."""
        return types_of(self.key, self.value)[:1]

    @property
    def value_type(self) -> SqlType:
        """See `StoreKind`."""
        return types_of(self.key, self.value)[1]

    @property
    def shown(self) -> tuple[StoreColumn, ...]:
        """See `StoreKind`."""
        return key_and_value(self.key, self.value)

    @property
    def life(self) -> None:
        """See `StoreKind`."""
        return

    def opened(self, store: Store, now: Callable[[], int]) -> Store:
        """See `StoreKind`."""
        del now
        return store


def types_of(key: str, value: str) -> tuple[SqlType, SqlType]:
    """The types of the keys and the values of a store. Raises StatementError for those that no
    store can have."""
    try:
        types = (sql_type(parse_type(key), {}), sql_type(parse_type(value), {}))
        accept(types[1])
        ordered = is_ordered(types[0])
    except (StatementError, SyntaxFailure) as error:
        raise StatementError(f"A store cannot hold {key} and {value}: {error}") from None
    if not ordered:
        raise StatementError(
            f"A store cannot have keys of type {types[0]}",
            hint="Keys are BOOLEAN, INTEGER, BIGINT, DECIMAL, STRING, BYTES, DATE, TIME or"
            " TIMESTAMP.",
        )
    return types


def key_and_value(
    key: str, value: str, *between: StoreColumn, text: str = "value"
) -> tuple[StoreColumn, ...]:
    """The columns of a store as a table: the key, what is `between`, and the value."""
    types = types_of(key, value)
    first = StoreColumn("KEY", types[0], "key", key=True)
    return (first, *between, StoreColumn("VALUE", types[1], text))


class StoredRows(Protocol):
    """What a store's table held for the task at the start of the run."""

    def get(self, keys: Sequence[Any]) -> Mapping[Any, Any]:
        """The values of those of the keys that are there. A key of several parts is a tuple."""

    def range(self, start: Any, end: Any) -> Iterator[tuple[Any, Any]]:
        """Keys and values in the order of the keys, from `start` on (None: the first) up to, and
        without, `end` (None: all)."""

    def before(self, time: TimePart, bound: int) -> list[Any]:
        """The keys of the rows whose time is before a bound, in order."""

    def sql(
        self, query: str, changed: Mapping[Any, Any], parameters: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        """The rows of a SELECT over the table `store`, whose columns are `key` and `value`, in
        which these keys have these values instead; None for those that are gone."""


Noted = tuple[Any, bool]
"""What was kept of a key, and whether it had been changed by this run before."""


class _Gone:
    """In the place of a value: the key is not there."""


_GONE = _Gone()


class Store:
    """A key-value store of one task. It belongs to its processor and its thread."""

    def __init__(self, name: str, kind: StoreKind[Any], rows: StoredRows) -> None:
        self.name = name
        self.rows = rows
        self._accept_value = accept(kind.value_type)
        first, *others = kind.key_types
        self._accept_key = accept(first)
        self._key_class: type | None = class_of(first)
        if others:
            self._accept_key = partial(_parts, tuple(map(accept, kind.key_types)))
            self._key_class = None
        self._copied = is_mutable(kind.value_type)
        self._kept: dict[Any, Any] = {}
        """Values as they are now, of keys that were read or changed; _GONE for those that are not
        there."""
        self._changed: dict[Any, None] = {}
        """The keys changed by this run, in the order of their first change."""
        self._expected: Sequence[Any] = ()
        self._undo: MutableMapping[Any, Noted] | None = None
        """What was there of each key that was changed since `mark`."""

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

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a SELECT in DuckDB's SQL over the store as it is now, which is the table
        `store` with the columns `key` and `value`:
        `store.sql("SELECT count(*), max(value) FROM store WHERE key > ?", ["m"])`.

        It reads the whole store of the task, so it is for schedules rather than for each record.
        Other tables, files and statements are not available. Raises ValueError for SQL that
        fails."""
        changed = {
            key: None if self._kept[key] is _GONE else self._kept[key] for key in self._changed
        }
        return self.rows.sql(query, changed, parameters)

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

    def discard(self, key: Any) -> None:
        """Remove a row that nobody sees any more, unless this run has changed it."""
        if key not in self._changed:
            self._kept[key] = _GONE
            self._changed[key] = None

    def mark(self, undo: MutableMapping[Any, Noted]) -> None:
        """Note from now on what was there before each change."""
        self._undo = undo

    def undo(self) -> None:
        """Take back what was changed since `mark`."""
        self._take_back(self._undo or {})
        self._undo = {}

    def _take_back(self, noted: Mapping[Any, Noted]) -> None:
        for key, (kept, changed) in noted.items():
            if kept is None:
                del self._kept[key]
            else:
                self._kept[key] = kept
            if not changed:
                del self._changed[key]

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
        if known is None or (self._key_class is None and None in known):
            raise TypeError(f"store '{self.name}' has no key None")
        return known

    def _refused(self, what: str, why: ValueError) -> TypeError:
        return TypeError(f"store '{self.name}' does not take this {what}: {why}")


def _parts(accepted: tuple[Accept, ...], key: Any) -> tuple[Any, ...]:
    """A key of several parts; raises ValueError for another one."""
    if not isinstance(key, tuple) or len(key) != len(accepted):
        raise ValueError(f"{key!r} has not {len(accepted)} parts")
    return tuple(take(part) for take, part in zip(accepted, key, strict=True))


def _closed(*_: Any) -> Any:
    raise RuntimeError("the store is closed: its task was given up")


class _Closed:
    """The rows of a closed store."""

    get = range = before = sql = staticmethod(_closed)


_CLOSED = _Closed()


@runtime_checkable
class Purging(Protocol):
    """A store whose rows expire."""

    def purge(self) -> None:
        """Remove expired rows, if there may be many."""


@dataclass(slots=True)
class TaskStores:
    """The stores of one task. `rows`: what each held when the task was opened; `declared`: whether
    `init` has ended, which alone may add stores."""

    rows: Callable[[str, StoreKind[Any]], StoredRows]
    named: dict[str, Store] = field(default_factory=dict)
    declared: bool = False
    now: Callable[[], int] = int
    """Stream time in ms."""
    purging: list[Purging] = field(default_factory=list)

    def add(self, name: str, kind: StoreKind[Opened]) -> Opened:
        """A new store; raises RuntimeError behind `init`, ValueError for a name that is taken."""
        if self.declared:
            raise RuntimeError("only init may call store")
        if name in self.named:
            raise ValueError(f"there is a store '{name}' already")
        self.named[name] = Store(name, kind, self.rows(name, kind))
        opened = kind.opened(self.named[name], lambda: self.now())
        if isinstance(opened, Purging):
            self.purging.append(opened)
        return opened

    def purge(self) -> None:
        """Remove rows that have expired, which nobody sees any more, from time to time."""
        for store in self.purging:
            store.purge()

    def mark(self, journal: Callable[[str], MutableMapping[Any, Noted]] | None = None) -> None:
        """See `Store.mark`. `journal`: where the changes of the store of a name are noted."""
        for name, store in self.named.items():
            store.mark({} if journal is None else journal(name))

    def undo(self) -> None:
        """See `Store.undo`."""
        for store in self.named.values():
            store.undo()

    def take_back(self, noted: Mapping[str, Mapping[Any, Noted]]) -> None:
        """Take changes back that a journal has noted, by the names of the stores."""
        for name, changes in noted.items():
            self.named[name]._take_back(changes)

    def expect(self, keys: Sequence[Any]) -> None:
        """See `Store.expect`."""
        for store in self.named.values():
            store.expect(keys)

    def close(self) -> None:
        """Close all of them."""
        for store in self.named.values():
            store.close()
