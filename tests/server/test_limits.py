"""Bounds on what one principal and all of them may do at a time."""

from __future__ import annotations

import threading

from millstream_server import limits
from millstream_server.config import load_config
from millstream_server.limits import Limits, Quota, Ticket, Work, quota
from millstream_server.principal import Principal, Refusal
from tests.server.keys import Clock

ALICE, BOB = Principal("alice"), Principal("bob")


def small(**flags: str) -> Quota:
    names = {name.replace("_", "."): value for name, value in flags.items()}
    return quota(load_config(flags=names))


def test_all_bounds_are_finite() -> None:
    found = quota(load_config())
    assert set(found.works) == set(Work)
    assert all(0 < b.at_a_time < 1e6 and 0 < b.rate < 1e7 for b in found.works.values())


def test_push_queries_at_a_time() -> None:
    many = Limits(small(ksql_max_push_queries="2"), Clock())
    tickets = [many.admit(who, Work.PUSH) for who in (ALICE, BOB)]
    assert all(isinstance(ticket, Ticket) for ticket in tickets)
    refusal = many.admit(BOB, Work.PUSH)
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.error_code, refusal.code) == (429, 42900, "E-LIMIT")
    assert refusal.retriable and refusal.headers["Retry-After"] == "1"
    assert "2/2" in refusal.message
    assert isinstance(many.admit(BOB, Work.PULL), Ticket), "other work goes on"
    first = tickets[0]
    assert isinstance(first, Ticket)
    first.release()
    first.release()
    assert many.running(Work.PUSH) == 1
    assert isinstance(many.admit(BOB, Work.PUSH), Ticket)
    assert isinstance(many.admit(BOB, Work.PUSH), Refusal)


def test_one_principal_does_not_use_up_all() -> None:
    many = Limits(small(millstream_principal_max_concurrent="3"), Clock())
    held = [many.admit(ALICE, Work.OTHER) for _ in range(4)]
    assert [isinstance(ticket, Ticket) for ticket in held] == [True, True, True, False]
    assert isinstance(many.admit(BOB, Work.OTHER), Ticket)


def test_rates_fill_up_again() -> None:
    clock = Clock()
    many = Limits(small(millstream_statement_max_rate="10"), clock)

    def admitted(tries: int) -> int:
        answers = [many.admit(ALICE, Work.STATEMENT) for _ in range(tries)]
        for answer in answers:
            if isinstance(answer, Ticket):
                answer.release()
        return sum(isinstance(answer, Ticket) for answer in answers)

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
    assert isinstance(many.admit(ALICE, Work.STATEMENT), Ticket)
    for _ in range(50):
        assert isinstance(many.admit(ALICE, Work.STATEMENT), Refusal)
    assert isinstance(many.admit(ALICE, Work.OTHER), Ticket)


def test_names_do_not_fill_the_memory(monkeypatch: object) -> None:
    many = Limits(small(), Clock())
    held = many.admit(ALICE, Work.PUSH)
    for number in range(limits.PRINCIPALS_MAX + 50):
        ticket = many.admit(Principal(f"p{number}"), Work.OTHER)
        assert isinstance(ticket, Ticket)
        ticket.release()
    assert len(many._usages) == limits.PRINCIPALS_MAX
    assert isinstance(held, Ticket) and "alice" in many._usages, "who works is not forgotten"


def test_many_threads() -> None:
    many = Limits(
        small(ksql_max_push_queries="50", millstream_principal_max_concurrent="100"), Clock()
    )
    admitted: list[Ticket] = []

    def ask() -> None:
        for _ in range(20):
            if isinstance(ticket := many.admit(ALICE, Work.PUSH), Ticket):
                admitted.append(ticket)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == 50 == many.running(Work.PUSH)
    for ticket in admitted:
        with ticket:
            pass
    assert many.running(Work.PUSH) == 0
