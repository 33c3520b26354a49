"""Push queries on the screen: Ctrl-C at any moment."""

from __future__ import annotations

import io
import re
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from millstream import Deletion
from millstream_cli.screen import live as screen_live
from millstream_cli.screen.output import Output
from millstream_cli.screen.show import show
from millstream_cli.screen.tables import TableStyle
from millstream_cli.sessions.results import Live, Row
from tests.patience import PATIENCE_S


class Pressing(Console):
    """A console while which draws Ctrl-C is pressed once."""

    pressed = False

    def __exit__(self, *error: Any) -> None:
        if not self.pressed:
            self.pressed = True
            signal.raise_signal(signal.SIGINT)
        super().__exit__(*error)


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts, also where the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def endless(rows: list[Row]) -> tuple[Live, threading.Event]:
    """A query that ends when it is closed, and whether it was."""
    closed = threading.Event()

    def batches() -> Iterator[list[Row]]:
        yield rows
        assert closed.wait(PATIENCE_S)

    return Live(("ID", "N"), batches(), closed.set, key=(0,)), closed


def test_ctrl_c_while_it_is_drawn() -> None:
    shown = io.StringIO()
    out = Output(Pressing(file=shown, force_terminal=True, width=60, height=20))
    query, closed = endless([("a", 1)])
    show(query, out, TableStyle())
    assert closed.is_set() and "Query terminated" in shown.getvalue()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("form", ["TABULAR", "JSON", "CSV", "VERTICAL"])
def test_ctrl_c_ends_the_query_between_rows(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen_live, "_AT_ONCE", 2)
    shown = io.StringIO()
    out = Output(Pressing(file=shown, width=60))
    query, closed = endless([(f"key{n}", n) for n in range(10)])
    show(query, out, TableStyle(form=form, live=False))
    assert closed.is_set() and "key9" not in shown.getvalue()


CHANGES: list[Row] = [("a", 1), ("b", 2), Deletion(("a", None)), ("c", None), Deletion(("d", None))]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("JSON", ['{"ID": "a", "N": null, "$tombstone": true}', '{"ID": "c", "N": null}']),
        ("CSV", ["a,<TOMBSTONE>", "c,"]),
        ("VERTICAL", ["N  | <TOMBSTONE>", "N  | null"]),
        ("TABULAR", ["| a | <TOMBSTONE> |", "| c | null |"]),
    ],
)
def test_a_deletion_looks_like_none_of_the_results(form: str, expected: list[str]) -> None:
    shown = io.StringIO()
    out = Output(Console(file=shown, width=60, height=20))
    show(Live(("ID", "N"), iter([CHANGES]), lambda: None, key=(0,)), out, TableStyle(form=form))
    text = re.sub(" +", " ", shown.getvalue()) if form == "TABULAR" else shown.getvalue()
    for line in expected:
        assert line in text


def test_a_deleted_row_leaves_the_table_on_the_screen() -> None:
    followed = screen_live.Followed(Live(("ID", "N"), iter(()), lambda: None, key=(0,)))
    followed.take(CHANGES)
    assert list(followed.latest.values()) == [("b", 2), ("c", None)]
    assert followed.fresh == {("b",), ("c",)}
    followed.take([Deletion(("b", None)), ("b", 3), ("c", 4), Deletion(("c", None))])
    assert list(followed.latest.values()) == [("b", 3)]
    assert followed.count == 9


def test_rows_one_by_one_are_not_drawn_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen_live, "TICK_SECONDS", PATIENCE_S)
    shown = io.StringIO()
    out = Output(Console(file=shown, force_terminal=True, width=60, height=20))
    rows: Iterator[list[Row]] = ([(f"key{n}", n)] for n in range(100))
    show(Live(("ID", "N"), rows, lambda: None, key=(0,)), out, TableStyle())
    assert shown.getvalue().count("Ctrl-C ends") < 10
    assert "| key0 " in shown.getvalue() and "| key99 " in shown.getvalue()


def test_what_changed_since_it_was_drawn_is_fresh() -> None:
    followed = screen_live.Followed(Live(("ID", "N"), iter(()), lambda: None, key=(0,)))
    followed.take([("a", 1)])
    followed.take([("b", 1)])
    assert followed.fresh == {("a",), ("b",)}
    followed.drawn = True
    followed.take([("c", 1)])
    assert followed.fresh == {("c",)}
