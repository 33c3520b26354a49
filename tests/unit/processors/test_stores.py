"""Stores against a dict, whatever the runs, failures and restarts in between."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.model.errors import StatementError
from millstream.processors import stores
from millstream.processors.stores import KeyValueStore, Store


@dataclass
class Table:
    """The stored rows."""

    rows: dict[Any, Any] = field(default_factory=dict)
    asked: list[list[Any]] = field(default_factory=list)

    def get(self, keys: Sequence[Any]) -> Mapping[Any, Any]:
        self.asked.append(list(keys))
        return {key: self.rows[key] for key in keys if key in self.rows}

    def range(self, start: Any, end: Any) -> Iterator[tuple[Any, Any]]:
        keys = [
            key
            for key in sorted(self.rows)
            if (start is None or key >= start) and (end is None or key < end)
        ]
        return iter([(key, self.rows[key]) for key in keys])

    def write(self, store: Store) -> None:
        for key, value in store.changes():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value


KEYS = st.sampled_from(["", "a", "b", "c", "d", "é"])
BOUNDS = st.none() | KEYS
STEPS = st.one_of(
    st.tuples(st.just("get"), KEYS),
    st.tuples(st.just("put"), KEYS, st.lists(st.integers(0, 3), max_size=2)),
    st.tuples(st.just("absent"), KEYS, st.lists(st.integers(0, 3), max_size=2)),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("expect"), st.lists(KEYS | st.integers(0, 2) | st.none(), max_size=4)),
    st.tuples(st.just("range"), BOUNDS, BOUNDS),
    st.tuples(st.sampled_from(["end", "fail", "reopen"])),
)


@given(st.lists(STEPS, max_size=40))
def test_a_store_is_a_dict(steps: list[tuple[Any, ...]]) -> None:
    table, kind = Table(), KeyValueStore("STRING", "ARRAY<INTEGER>")
    store = Store("s", kind, table)
    now: dict[str, list[int]] = {}
    ended: dict[str, list[int]] = {}
    for step in steps:
        match step:
            case ("get", key):
                found = store.get(key, "none")
                assert found == now.get(key, "none")
                if key in now:
                    # What a caller does with its copy changes nothing.
                    found.append(9)
            case ("put", key, value):
                store.put(key, value)
                now[key] = list(value)
                value.append(9)
            case ("absent", key, value):
                assert store.put_if_absent(key, value) == now.get(key)
                now.setdefault(key, value)
            case ("delete", key):
                assert store.delete(key) == now.pop(key, None)
            case ("expect", keys):
                store.expect(keys)
            case ("range", start, end):
                wanted = [
                    (key, now[key])
                    for key in sorted(now)
                    if (start is None or key >= start) and (end is None or key < end)
                ]
                assert list(store.range(start, end)) == wanted
            case ("end",):
                table.write(store)
                ended = {key: list(value) for key, value in now.items()}
            case ("fail",):
                store.close()
                store = Store("s", kind, table)
                now = {key: list(value) for key, value in ended.items()}
            case ("reopen",):
                store = Store("s", kind, table)
                now = {key: list(value) for key, value in ended.items()}
    table.write(store)
    assert table.rows == now


def test_keys_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table({"a": 1})
    store = Store("s", KeyValueStore("STRING", "BIGINT"), table)
    store.expect(["a", "b", "a"])
    assert table.asked == []
    assert (store.get("b"), store.get("b", 7), store.get("a")) == (None, 7, 1)
    assert table.asked == [["b", "a"]]
    store.put("c", 3)
    monkeypatch.setattr(stores, "KEPT_MAX", 2)
    table.write(store)
    assert (store.get("c"), table.asked[-1]) == (3, ["c"])


def test_changes_while_a_range_is_read_are_not_in_it() -> None:
    store = Store("s", KeyValueStore("STRING", "BIGINT"), Table({"a": 1, "c": 3}))
    store.put("b", 2)
    found = []
    for key, value in store.range():
        found.append((key, value))
        store.put(key + "x", value)
        store.delete("c")
    assert found == [("a", 1), ("b", 2), ("c", 3)]
    assert [key for key, _ in store.range()] == ["a", "ax", "b", "bx", "cx"]


UTC = dt.UTC
DAY = dt.date(2026, 1, 2)
NOON = dt.datetime(2026, 1, 2, 12)
TAKEN: list[tuple[str, Any, Any]] = [
    ("BOOLEAN", True, True),
    ("INTEGER", -(2**31), -(2**31)),
    ("BIGINT", 2**63 - 1, 2**63 - 1),
    ("DOUBLE", 3, 3.0),
    ("STRING", "x", "x"),
    ("BYTES", b"x", b"x"),
    ("DATE", DAY, DAY),
    ("TIME", dt.time(1), dt.time(1)),
    ("TIMESTAMP", NOON, NOON),
    ("DECIMAL(4, 2)", 3, decimal.Decimal("3.00")),
    ("DECIMAL(4, 2)", decimal.Decimal("99.990"), decimal.Decimal("99.99")),
    ("ARRAY<DOUBLE>", (1, None), [1.0, None]),
    ("MAP<STRING, ARRAY<INTEGER>>", {"a": (1,)}, {"a": [1]}),
    ("STRUCT<A INTEGER, B STRING>", {"A": 1}, {"A": 1, "B": None}),
]
REFUSED: list[tuple[str, Any, str]] = [
    ("BOOLEAN", 1, "takes a bool"),
    ("INTEGER", True, "takes a int"),
    ("INTEGER", 2**31, "too large for INTEGER"),
    ("BIGINT", -(2**63) - 1, "too large for BIGINT"),
    ("BIGINT", 1.0, "takes a int"),
    ("DOUBLE", "1", "takes a float"),
    ("STRING", b"x", "takes a str"),
    ("BYTES", "x", "takes a bytes"),
    ("DATE", NOON, "takes a date"),
    ("TIME", NOON, "takes a time"),
    ("TIMESTAMP", DAY, "takes a datetime"),
    ("TIMESTAMP", NOON.replace(tzinfo=UTC), "time zone"),
    ("DECIMAL(4, 2)", decimal.Decimal("100"), "more digits"),
    ("DECIMAL(4, 2)", decimal.Decimal("0.001"), "more digits"),
    ("DECIMAL(4, 2)", decimal.Decimal("NaN"), "not a number"),
    ("DECIMAL(4, 2)", 1.5, "takes a Decimal"),
    ("ARRAY<INTEGER>", "x", "takes a list"),
    ("ARRAY<INTEGER>", [1, "x"], "takes a int"),
    ("MAP<STRING, INTEGER>", {1: 1}, "takes a str"),
    ("MAP<STRING, INTEGER>", {None: 1}, "takes a dict"),
    ("STRUCT<A INTEGER>", {"B": 1}, "no field 'B'"),
]


@pytest.mark.parametrize(("kind", "given", "stored"), TAKEN, ids=str)
def test_values_are_read_back_as_the_table_has_them(kind: str, given: Any, stored: Any) -> None:
    store = Store("s", KeyValueStore("STRING", kind), Table())
    store.put("k", given)
    found = store.get("k")
    assert (found, type(found)) == (stored, type(stored))


@pytest.mark.parametrize(("kind", "given", "why"), REFUSED, ids=str)
def test_other_values_are_refused(kind: str, given: Any, why: str) -> None:
    store = Store("s", KeyValueStore("STRING", kind), Table())
    with pytest.raises(TypeError, match=why) as raised:
        store.put("k", given)
    assert "store 's' does not take this value" in str(raised.value)
    assert (store.get("k"), store.changes()) == (None, [])


@pytest.mark.parametrize("kept", [False, True])
def test_equal_keys_of_another_type_are_refused(kept: bool) -> None:
    store = Store("s", KeyValueStore("BIGINT", "STRING"), Table({1: "x"}))
    if kept:
        assert store.get(1) == "x"
    for key in (True, 1.0, None, "1"):
        with pytest.raises(TypeError):
            store.get(key)


@pytest.mark.parametrize("kind", ["DOUBLE", "ARRAY<INTEGER>", "STRUCT<a INTEGER>"])
def test_keys_have_an_order(kind: str) -> None:
    with pytest.raises(StatementError, match="cannot have keys of type"):
        KeyValueStore(kind, "STRING")


@pytest.mark.parametrize("kind", ["", "TEXT", "T", "ANY", "DECIMAL(2, 3)"])
def test_types_must_be_known(kind: str) -> None:
    with pytest.raises(StatementError, match="A store cannot hold"):
        KeyValueStore("STRING", kind)
