"""Tasks are opened only after a poll of the command topic that began after their assignment."""

from __future__ import annotations

from millstream.service.threads.catch_up_gate import CatchUpGate

NONE: frozenset[int] = frozenset()
BOTH = frozenset({0, 1})


def looking() -> CatchUpGate:
    abreast = CatchUpGate()
    abreast.follow()
    return abreast


def test_without_a_follower_all_is_granted() -> None:
    assert CatchUpGate().granted("q", BOTH) == BOTH


def test_it_takes_a_look_that_was_begun_later() -> None:
    abreast = looking()
    early = abreast.look()
    assert abreast.granted("q", BOTH) == NONE
    assert abreast.looked_for.is_set()
    assert not abreast.looked(early)
    assert abreast.granted("q", BOTH) == NONE
    late = abreast.look()
    assert abreast.granted("q", BOTH) == NONE
    assert abreast.looked(late)
    assert abreast.granted("q", BOTH) == BOTH
    assert not abreast.looked(abreast.look())


def test_what_is_held_stays_when_more_comes() -> None:
    abreast = looking()
    abreast.granted("q", frozenset({0}))
    abreast.looked(abreast.look())
    assert abreast.granted("q", frozenset({0})) == {0}
    assert abreast.granted("q", BOTH) == {0}
    abreast.looked(abreast.look())
    assert abreast.granted("q", BOTH) == BOTH


def test_what_was_lost_is_asked_for_anew() -> None:
    abreast = looking()
    abreast.granted("q", BOTH)
    abreast.looked(abreast.look())
    assert abreast.granted("q", BOTH) == BOTH
    assert abreast.granted("q", NONE) == NONE
    assert abreast.granted("q", BOTH) == NONE


def test_a_look_for_less_does_not_do_for_more() -> None:
    abreast = looking()
    abreast.granted("q", frozenset({0}))
    look = abreast.look()
    assert abreast.granted("q", BOTH) == NONE
    abreast.looked(look)
    assert abreast.granted("q", BOTH) == NONE
    abreast.looked(abreast.look())
    assert abreast.granted("q", BOTH) == BOTH
