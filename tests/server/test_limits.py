"""Bounds on what one principal and all of them may do at a time."""

from __future__ import annotations

import threading
from dataclasses import replace

from millstream_server.auth import limits
from millstream_server.auth.limits import Limits, Quota, Work, WorkLimit
from millstream_server.auth.principal import ANONYMOUS, Principal, Refusal
from millstream_server.bootstrap.config import load_config
from millstream_server.bootstrap.wiring import quota
from tests.server.keys import Clock

ALICE, BOB = Principal("alice"), Principal("bob")


def small(**flags: str) -> Quota:
    names = {name.replace("_", "."): value for name, value in flags.items()}
    return quota(load_config(flags=names))


def replaced(work: Work, at_a_time: int) -> Quota:
    """The default quota with another bound for one kind of work."""
    found = small()
    return replace(found, works={**found.works, work: WorkLimit(at_a_time, 1e6)})


def test_all_bounds_are_finite() -> None:
    found = quota(load_config())
    assert set(found.works) == set(Work)
    assert all(0 < b.at_a_time < 1e6 and 0 < b.rate < 1e7 for b in found.works.values())


def test_what_goes_on_at_a_time() -> None:
    many = Limits(replaced(Work.QUERY, 2), Clock())
    assert many.admit(ALICE, Work.QUERY) is None and many.admit(BOB, Work.QUERY) is None
    refusal = many.admit(BOB, Work.QUERY)
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.error_code, refusal.code) == (429, 42900, "E-LIMIT")
    assert refusal.headers["Retry-After"] == "1"
    assert "2/2" in refusal.message
    assert isinstance(many.admit(ANONYMOUS, Work.QUERY), Refusal)
    assert many.admit(BOB, Work.OTHER) is None, "other work goes on"
    many.release(ALICE, Work.QUERY)
    assert many.running(Work.QUERY) == 1
    assert many.admit(BOB, Work.QUERY) is None
    assert isinstance(many.admit(BOB, Work.QUERY), Refusal)


def test_one_principal_does_not_use_up_all() -> None:
    many = Limits(small(millstream_principal_max_concurrent="3"), Clock())
    held = [many.admit(ALICE, Work.OTHER) for _ in range(4)]
    assert [refusal is None for refusal in held] == [True, True, True, False]
    assert many.admit(BOB, Work.OTHER) is None
    assert [many.admit(ANONYMOUS, Work.OTHER) for _ in range(4)] == [None] * 4


def test_rates_fill_up_again() -> None:
    clock = Clock()
    many = Limits(small(millstream_statement_max_rate="10"), clock)

    def admitted(tries: int) -> int:
        answers = [many.admit(ALICE, Work.STATEMENT) for _ in range(tries)]
        let_in = answers.count(None)
        for _ in range(let_in):
            many.release(ALICE, Work.STATEMENT)
        return let_in

    assert admitted(30) == 10
    clock.now += 0.5
    assert admitted(30) == 5
    clock.now += 1_000
    assert admitted(30) == 10
    clock.now -= 500
    assert admitted(1) == 0, "a clock that goes back gives nothing"


def test_a_refused_request_uses_up_nothing() -> None:
    clock = Clock()
    many = Limits(small(millstream_statement_max_rate="1", millstream_request_max_rate="5"), clock)
    assert many.admit(ALICE, Work.STATEMENT) is None
    for _ in range(50):
        assert isinstance(many.admit(ALICE, Work.STATEMENT), Refusal)
    assert many.admit(ALICE, Work.OTHER) is None


def test_names_do_not_fill_the_memory(monkeypatch: object) -> None:
    many = Limits(small(), Clock())
    assert many.admit(ALICE, Work.QUERY) is None
    for number in range(limits.PRINCIPALS_MAX + 50):
        passing = Principal(f"p{number}")
        assert many.admit(passing, Work.OTHER) is None
        many.release(passing, Work.OTHER)
    assert len(many._usages) == limits.PRINCIPALS_MAX
    assert "alice" in many._usages, "who works is not forgotten"


def test_many_threads() -> None:
    many = Limits(replaced(Work.QUERY, 50), Clock())
    admitted: list[Work] = []

    def ask() -> None:
        for _ in range(20):
            if many.admit(ALICE, Work.QUERY) is None:
                admitted.append(Work.QUERY)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == 50 == many.running(Work.QUERY)
    for work in admitted:
        many.release(ALICE, work)
    assert many.running(Work.QUERY) == 0
