"""Further kinds of stores: with times, windows, sessions, versions, and lists."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any, ClassVar

from millstream.functions.function import StoreColumn, StoreLife
from millstream.model.event_time import LATEST
from millstream.model.types import BIGINT, TIMESTAMP, Array, Field, SqlType, Struct
from millstream.processors.stores import Store, TimePart, key_and_value, types_of
from millstream.processors.times import as_ms, as_time, length_ms

VALUE, AT = "VALUE", "AT"
_FIRST, _PAST = 0, LATEST + 1
_SHARE = 4
"""Expired rows are removed each time a quarter of their life has passed."""


@dataclass(frozen=True, slots=True)
class TimestampedKeyValueStore:
    """A value with a time for each key. With a `ttl`, a row is gone when stream time is so much
    later than its time."""

    key: str
    value: str
    ttl: dt.timedelta | None = None

    def __post_init__(self) -> None:
        types_of(self.key, self.value)
        if self.ttl is not None:
            length_ms(self.ttl, "a ttl")

    @property
    def key_types(self) -> tuple[SqlType, ...]:
        """See `StoreKind`."""
        return types_of(self.key, self.value)[:1]

    @property
    def value_type(self) -> SqlType:
        """See `StoreKind`."""
        value = types_of(self.key, self.value)[1]
        return Struct((Field(VALUE, value), Field(AT, BIGINT)))

    @property
    def shown(self) -> tuple[StoreColumn, ...]:
        """See `StoreKind`."""
        at = _time_column("TIMESTAMP", TimePart.VALUE.value)
        return key_and_value(self.key, self.value, at, text='value."VALUE"')

    @property
    def life(self) -> StoreLife | None:
        """See `StoreKind`."""
        if self.ttl is None:
            return None
        return StoreLife(TimePart.VALUE.value, length_ms(self.ttl, "a ttl"))

    def opened(self, store: Store, now: Callable[[], int]) -> TimestampedStore:
        """See `StoreKind`."""
        life = None if self.ttl is None else length_ms(self.ttl, "a ttl")
        return TimestampedStore(store, _Life(now, life, store, TimePart.VALUE))


@dataclass(frozen=True, slots=True)
class _Retained:
    """What stores whose keys have times are declared with."""

    key: str
    value: str
    retention: dt.timedelta
    times: ClassVar[int] = 1
    """The number of times in a key."""

    def __post_init__(self) -> None:
        types_of(self.key, self.value)
        length_ms(self.retention, "a retention")

    @property
    def key_types(self) -> tuple[SqlType, ...]:
        """See `StoreKind`."""
        return (types_of(self.key, self.value)[0], *repeat(BIGINT, self.times))

    @property
    def value_type(self) -> SqlType:
        """See `StoreKind`."""
        return types_of(self.key, self.value)[1]

    @property
    def life(self) -> StoreLife:
        """See `StoreKind`."""
        return StoreLife(TimePart.KEY.value, length_ms(self.retention, "a retention"))

    def _life(self, store: Store, now: Callable[[], int]) -> _Life:
        return _Life(now, length_ms(self.retention, "a retention"), store, TimePart.KEY)


@dataclass(frozen=True, slots=True)
class WindowStore(_Retained):
    """A value for each key and start of a window, for `retention` of stream time from the start
    on."""

    @property
    def shown(self) -> tuple[StoreColumn, ...]:
        """See `StoreKind`."""
        return key_and_value(self.key, self.value, _time_column("WINDOW_START", "key_1"))

    def opened(self, store: Store, now: Callable[[], int]) -> Windows:
        """See `StoreKind`."""
        return Windows(store, self._life(store, now))


@dataclass(frozen=True, slots=True)
class SessionStore(_Retained):
    """A value for each key, start and end of a session, for `retention` of stream time from the end
    on. In its keys the end comes before the start, because sessions are found by it."""

    times: ClassVar[int] = 2

    @property
    def shown(self) -> tuple[StoreColumn, ...]:
        """See `StoreKind`."""
        bounds = _time_column("WINDOW_START", "key_2"), _time_column("WINDOW_END", "key_1")
        return key_and_value(self.key, self.value, *bounds)

    def opened(self, store: Store, now: Callable[[], int]) -> Sessions:
        """See `StoreKind`."""
        return Sessions(store, self._life(store, now))


@dataclass(frozen=True, slots=True)
class VersionedStore(_Retained):
    """The values that a key has had, each from some time on, for `retention` of stream time."""

    @property
    def value_type(self) -> SqlType:
        """See `StoreKind`. A deletion is a version too, whose value is NULL."""
        return Struct((Field(VALUE, types_of(self.key, self.value)[1]),))

    @property
    def shown(self) -> tuple[StoreColumn, ...]:
        """See `StoreKind`."""
        since = _time_column("TIMESTAMP", "key_1")
        return key_and_value(self.key, self.value, since, text='value."VALUE"')

    @property
    def life(self) -> StoreLife:
        """See `StoreKind`. A version is needed until the next one of its key."""
        following = 'lead(key_1) OVER (PARTITION BY "$part", key ORDER BY key_1)'
        return StoreLife(
            TimePart.KEY.value, length_ms(self.retention, "a retention"), until=following
        )

    def opened(self, store: Store, now: Callable[[], int]) -> Versions:
        """See `StoreKind`."""
        return Versions(store, self._life(store, now))


@dataclass(frozen=True, slots=True)
class ListStore:
    """A list of values of one type for each key."""

    key: str
    element: str

    def __post_init__(self) -> None:
        types_of(self.key, self.element)

    @property
    def key_types(self) -> tuple[SqlType, ...]:
        """See `StoreKind`."""
        return types_of(self.key, self.element)[:1]

    @property
    def value_type(self) -> SqlType:
        """See `StoreKind`."""
        return Array(types_of(self.key, self.element)[1])

    @property
    def shown(self) -> tuple[StoreColumn, ...]:
        """See `StoreKind`."""
        return key_and_value(self.key, f"ARRAY<{self.element}>")

    @property
    def life(self) -> None:
        """See `StoreKind`."""
        return

    def opened(self, store: Store, now: Callable[[], int]) -> Lists:
        """See `StoreKind`."""
        del now
        return Lists(store)


def _time_column(name: str, milliseconds: str) -> StoreColumn:
    """A time that is stored in ms."""
    return StoreColumn(name, TIMESTAMP, f"make_timestamp({milliseconds} * 1000)")


class _Life:
    """How long the rows of a store live. Those that have expired are not shown, so it does not
    matter when they are removed."""

    def __init__(
        self, now: Callable[[], int], life_ms: int | None, store: Store, time: TimePart
    ) -> None:
        self._now = now
        self._life_ms = life_ms
        self._store = store
        self._time = time
        self._purged = _FIRST

    @property
    def first(self) -> int:
        """The time of the first rows that live."""
        return _FIRST if self._life_ms is None else max(self._now() - self._life_ms, _FIRST)

    def purge(self) -> None:
        """Remove expired rows if the last time is long past."""
        for key in self.expired():
            self._store.discard(key)

    def expired(self) -> list[Any]:
        """The keys of expired rows, in order, if the last time is long past."""
        if self._life_ms is None or self._now() < self._purged + self._life_ms // _SHARE:
            return []
        self._purged = self._now()
        return self._store.rows.before(self._time, self.first)


class TimestampedStore:
    """A store of values with times. A time is a datetime in UTC, without tzinfo."""

    def __init__(self, store: Store, life: _Life) -> None:
        self._store = store
        self._life = life
        self.purge = life.purge

    def get(self, key: Any) -> tuple[Any, dt.datetime] | None:
        """The value of a key and its time; None if it is not there."""
        found = self._store.get(key)
        if found is None or found[AT] < self._life.first:
            return None
        return found[VALUE], as_time(found[AT])

    def put(self, key: Any, value: Any, timestamp: dt.datetime) -> None:
        """Set the value of a key; None removes it."""
        held = None if value is None else {VALUE: value, AT: _ms(timestamp)}
        self._store.put(key, held)

    def delete(self, key: Any) -> tuple[Any, dt.datetime] | None:
        """Remove a key; what `get` has returned."""
        before = self.get(key)
        self._store.delete(key)
        return before

    def range(self, start: Any = None, end: Any = None) -> Iterator[tuple[Any, Any, dt.datetime]]:
        """Keys, values and times in the order of the keys, from `start` on, without `end`."""
        first = self._life.first
        for key, held in self._store.range(start, end):
            if held[AT] >= first:
                yield key, held[VALUE], as_time(held[AT])


class Windows:
    """A store of windows, each with its start: a datetime in UTC, without tzinfo."""

    def __init__(self, store: Store, life: _Life) -> None:
        self._store = store
        self._life = life
        self.purge = life.purge

    def put(self, key: Any, value: Any, start: dt.datetime) -> None:
        """Set the value of a window; None removes it. Nothing happens if it has expired."""
        at = _ms(start)
        if at >= self._life.first:
            self._store.put((key, at), value)

    def get(self, key: Any, start: dt.datetime) -> Any:
        """The value of a window; None if it is not there."""
        at = _ms(start)
        return self._store.get((key, at)) if at >= self._life.first else None

    def delete(self, key: Any, start: dt.datetime) -> None:
        """Remove a window."""
        self._store.put((key, _ms(start)), None)

    def fetch(
        self, key: Any, first: dt.datetime | None = None, last: dt.datetime | None = None
    ) -> Iterator[tuple[dt.datetime, Any]]:
        """The windows of a key that start from `first` to `last`, both included: start and value,
        in order."""
        begin, end = _between(first, last, self._life.first)
        for (_, at), value in self._store.range((key, begin), (key, end)):
            yield as_time(at), value

    def all(
        self, first: dt.datetime | None = None, last: dt.datetime | None = None
    ) -> Iterator[tuple[Any, dt.datetime, Any]]:
        """The windows of all keys that start from `first` to `last`: key, start and value, in the
        order of keys and starts."""
        begin, end = _between(first, last, self._life.first)
        for (key, at), value in self._store.range():
            if begin <= at < end:
                yield key, as_time(at), value


class Sessions:
    """A store of sessions, each from a start to an end: datetimes in UTC, without tzinfo."""

    def __init__(self, store: Store, life: _Life) -> None:
        self._store = store
        self._life = life
        self.purge = life.purge

    def put(self, key: Any, start: dt.datetime, end: dt.datetime, value: Any) -> None:
        """Set the value of a session; None removes it. Nothing happens if it has expired. Raises
        ValueError if it ends before it starts."""
        if end < start:
            raise ValueError(f"a session from {start} cannot end at {end}")
        at = _ms(end)
        if at >= self._life.first:
            self._store.put((key, at, _ms(start)), value)

    def get(self, key: Any, start: dt.datetime, end: dt.datetime) -> Any:
        """The value of a session; None if it is not there."""
        at = _ms(end)
        return self._store.get((key, at, _ms(start))) if at >= self._life.first else None

    def delete(self, key: Any, start: dt.datetime, end: dt.datetime) -> None:
        """Remove a session."""
        self._store.put((key, _ms(end), _ms(start)), None)

    def find(
        self,
        key: Any,
        earliest_end: dt.datetime | None = None,
        latest_start: dt.datetime | None = None,
    ) -> Iterator[tuple[dt.datetime, dt.datetime, Any]]:
        """The sessions of a key that end at `earliest_end` or later and start at `latest_start` or
        earlier: start, end and value, in the order of their ends."""
        begin, _ = _between(earliest_end, None, self._life.first)
        latest = LATEST if latest_start is None else _ms(latest_start)
        for (_, end, start), value in self._store.range((key, begin, _FIRST), (key, _PAST, _FIRST)):
            if start <= latest:
                yield as_time(start), as_time(end), value


class Versions:
    """A store of versions. Times are datetimes in UTC, without tzinfo."""

    def __init__(self, store: Store, life: _Life) -> None:
        self._store = store
        self._life = life

    def put(self, key: Any, value: Any, timestamp: dt.datetime) -> None:
        """The value of a key from a time on; None: it has none from then on. Versions may be added
        in any order. Nothing happens if the time is longer ago than the retention."""
        at = _ms(timestamp)
        if at >= self._life.first:
            self._store.put((key, at), {VALUE: value})

    def delete(self, key: Any, timestamp: dt.datetime) -> None:
        """The key has no value from a time on."""
        self.put(key, None, timestamp)

    def get(self, key: Any, at: dt.datetime | None = None) -> tuple[Any, dt.datetime] | None:
        """The value at a time, by default the latest one, and since when; None if there was none,
        or the time is longer ago than the retention."""
        if at is not None and _ms(at) < self._life.first:
            return None
        last = None
        for found in self._until(key, at):
            last = found
        return None if last is None or last[1][VALUE] is None else (last[1][VALUE], last[0])

    def fetch(
        self, key: Any, first: dt.datetime | None = None, last: dt.datetime | None = None
    ) -> Iterator[tuple[dt.datetime, Any]]:
        """The versions of a key from `first` to `last`, both included: since when, and the value,
        in order. None is the value of a deletion."""
        begin, _ = _between(first, last, self._life.first)
        for since, held in self._until(key, last):
            if as_ms(since) >= begin:
                yield since, held[VALUE]

    def purge(self) -> None:
        """Remove versions that were followed by another one before the retention began."""
        expired = self._life.expired()
        for key, following in pairwise(expired):
            if key[0] == following[0]:
                self._store.discard(key)

    def _until(self, key: Any, at: dt.datetime | None) -> Iterator[tuple[dt.datetime, Any]]:
        end = _PAST if at is None else _ms(at) + 1
        for (_, since), held in self._store.range((key, _FIRST), (key, end)):
            yield as_time(since), held


class Lists:
    """A store of lists."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, key: Any) -> list[Any]:
        """The list of a key; an empty one if there is none."""
        found: list[Any] = self._store.get(key, [])
        return found

    def append(self, key: Any, *elements: Any) -> None:
        """Add elements to the end of a key's list."""
        if elements:
            self._store.put(key, [*self._store.get(key, []), *elements])

    def put(self, key: Any, elements: list[Any]) -> None:
        """Set the list of a key; an empty one removes it."""
        self._store.put(key, list(elements) or None)

    def delete(self, key: Any) -> list[Any]:
        """Remove a key; the list it had."""
        found: list[Any] = self._store.delete(key) or []
        return found

    def range(self, start: Any = None, end: Any = None) -> Iterator[tuple[Any, list[Any]]]:
        """Keys and lists in the order of the keys, from `start` on, without `end`."""
        return self._store.range(start, end)


def _ms(time: dt.datetime) -> int:
    """A time in ms. Raises TypeError and ValueError for one that no record can have."""
    if not isinstance(time, dt.datetime):
        raise TypeError(f"a time is a datetime, not {time!r}")
    if time.tzinfo is not None:
        raise ValueError(f"{time!r} has a time zone: times are in UTC, without tzinfo")
    found = as_ms(time)
    if not _FIRST <= found <= LATEST:
        raise ValueError(f"{time} is before 1970 or far away")
    return found


def _between(first: dt.datetime | None, last: dt.datetime | None, living: int) -> tuple[int, int]:
    """The first time and the one behind the last, in ms."""
    begin = living if first is None else max(_ms(first), living)
    return begin, _PAST if last is None else _ms(last) + 1
