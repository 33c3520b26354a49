"""Tasks are opened only after a poll of the command topic that began after their assignment."""

from __future__ import annotations

from millstream.scheduler.catch_up_gate import CatchUpGate

NONE: frozenset[int] = frozenset()
BOTH = frozenset({0, 1})


def looking() -> CatchUpGate:
    gate = CatchUpGate()
    gate.follow()
    return gate


def test_without_a_follower_all_is_granted() -> None:
    assert CatchUpGate().granted("q", BOTH) == BOTH


def test_it_takes_a_look_that_was_begun_later() -> None:
    gate = looking()
    early = gate.begin_poll()
    assert gate.granted("q", BOTH) == NONE
    assert gate.poll_requested.is_set()
    assert not gate.end_poll(early)
    assert gate.granted("q", BOTH) == NONE
    late = gate.begin_poll()
    assert gate.granted("q", BOTH) == NONE
    assert gate.end_poll(late)
    assert gate.granted("q", BOTH) == BOTH
    assert not gate.end_poll(gate.begin_poll())


def test_what_is_held_stays_when_more_comes() -> None:
    gate = looking()
    gate.granted("q", frozenset({0}))
    gate.end_poll(gate.begin_poll())
    assert gate.granted("q", frozenset({0})) == {0}
    assert gate.granted("q", BOTH) == {0}
    gate.end_poll(gate.begin_poll())
    assert gate.granted("q", BOTH) == BOTH


def test_what_was_lost_is_asked_for_anew() -> None:
    gate = looking()
    gate.granted("q", BOTH)
    gate.end_poll(gate.begin_poll())
    assert gate.granted("q", BOTH) == BOTH
    assert gate.granted("q", NONE) == NONE
    assert gate.granted("q", BOTH) == NONE


def test_a_look_for_less_does_not_do_for_more() -> None:
    gate = looking()
    gate.granted("q", frozenset({0}))
    poll = gate.begin_poll()
    assert gate.granted("q", BOTH) == NONE
    gate.end_poll(poll)
    assert gate.granted("q", BOTH) == NONE
    gate.end_poll(gate.begin_poll())
    assert gate.granted("q", BOTH) == BOTH
