"""What a query writes within transactions and what outside of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from millstream.log.log import Appended, Outcome
from millstream.runtime.hand_over import HandOver
from millstream.runtime.ports import NoBackground
from millstream.runtime.record_collector import ALONE_BYTES, RecordCollector
from millstream.runtime.spec import Guarantee, QuerySpec, RuntimeSettings

ALOS, EOS = Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE


class Noted:
    """A writer that notes what is done with which topics."""

    def __init__(self) -> None:
        self.done: list[tuple[str, list[str]]] = []

    def _note(self, how: str, appended: Sequence[Appended[Any]]) -> None:
        self.done.append((how, [item.topic for item in appended]))

    def append(self, appended: Sequence[Appended[Any]]) -> None:
        self._note("append", appended)

    def send(self, appended: Sequence[Appended[Any]]) -> None:
        self._note("send", appended)

    def transact(self, group: str, appended: Sequence[Appended[Any]], positions: Any) -> Outcome:
        self._note("transact", appended)
        return Outcome.COMMITTED

    def close(self) -> None:
        """Nothing to close."""


def outputs(*topics: str, size: int = 10) -> list[Appended[Any]]:
    return [Appended(topic, 0, (), 1, size) for topic in topics]


def collector(guarantee: Guarantee, **more: Any) -> tuple[RecordCollector[Any], Noted]:
    writer = Noted()
    spec: QuerySpec[Any] = QuerySpec(
        "Q",
        "Q",
        (),
        guarantee,
        repartitions=frozenset({"moved stream", "moved table"}),
        streams=frozenset({"moved stream", "stream"}),
        **more,
    )
    hand_over = HandOver[Any](None)
    return RecordCollector(spec, lambda: writer, NoBackground(), hand_over), writer  # type: ignore[arg-type,return-value]


def test_at_least_once_rows_of_streams_need_no_transaction() -> None:
    made, writer = collector(ALOS)
    made.deliver(outputs("stream", "table", "moved stream", "moved table"), 0, soon=False)
    assert writer.done == [
        ("send", ["stream", "moved stream"]),
        ("append", ["table", "moved table"]),
    ]


def test_nothing_is_no_append() -> None:
    made, writer = collector(ALOS)
    made.deliver([], 0, soon=False)
    made.deliver([], 0, soon=True)
    assert writer.done == []


def test_what_goes_with_the_commit_is_not_sent_before() -> None:
    """Except what another sub-topology reads before."""
    made, writer = collector(ALOS)
    made.deliver(outputs("stream", "moved stream", "table"), 0, soon=True)
    assert writer.done == [("send", ["moved stream"])]
    made.deliver(outputs("stream"), 0, soon=False)
    made.transact((), {})
    assert writer.done[1:] == [("transact", ["stream", "table", "stream"])], "in their order"


def test_what_waits_for_the_commit_brings_it_forward() -> None:
    """Unless it would wait for it anyway."""
    settings = RuntimeSettings()
    for guarantee, topic, soon, full in (
        (ALOS, "stream", False, False),
        (ALOS, "moved stream", True, False),
        (ALOS, "stream", True, True),
        (EOS, "stream", True, False),
    ):
        made, _ = collector(guarantee)
        made.deliver(outputs(topic), 0, soon=soon)
        assert made.full(settings) is full, (guarantee, topic, soon)
        made.settled()
        assert not made.full(settings)


def test_exactly_once_everything_is_in_the_transaction() -> None:
    made, writer = collector(EOS)
    made.deliver(outputs("stream", "moved stream", "table"), 0, soon=False)
    assert writer.done == []
    made.transact((), {})
    assert writer.done == [("transact", ["stream", "moved stream", "table"])]


@pytest.mark.parametrize(
    ("size", "kept", "large"),
    [(0, ALONE_BYTES - 1, False), (ALONE_BYTES - 1, 1, True), (0, ALONE_BYTES, True)],
)
def test_large_outputs_are_committed_alone(size: int, kept: int, large: bool) -> None:
    made, _ = collector(EOS)
    made.deliver(outputs("stream", size=size), kept, soon=False)
    assert made.large is large
    made.settled()
    assert not made.large
