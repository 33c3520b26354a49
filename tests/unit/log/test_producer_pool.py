"""Who commits with which producer, and what is ended before that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

pytest.importorskip("confluent_kafka")

from millstream.log.fenced_rounds import RefusedCredentialError
from millstream.log.kafka.producer_pool import ProducerPool
from millstream.log.kafka.transactions import (
    Entry,
    MemberCredential,
    RefusedError,
    Transactions,
)
from millstream.log.log import Outcome
from millstream.model.errors import FencedError, StatementError, UnavailableError

COMMITTED, UNKNOWN = Outcome.COMMITTED, Outcome.UNKNOWN
Fate = Callable[[Sequence[str]], Outcome]


def commits(_groups: Sequence[str]) -> Outcome:
    return COMMITTED


class GroupsRefusedError(Exception):
    """A fate: the brokers refuse these groups among others."""

    def __init__(self, *groups: str) -> None:
        super().__init__()
        self.groups = groups


@dataclass
class Brokers:
    """What producers do and what becomes of it."""

    fate: Fate = commits
    opened: list[int] = field(default_factory=list)
    carried: list[list[str]] = field(default_factory=list)
    credentials: list[MemberCredential | None] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    away: bool = False

    def open(self, number: int) -> Transactions:
        if self.away:
            raise UnavailableError("away")
        self.opened.append(number)
        return cast(Transactions, Fake(self, number))


class Fake:
    """A producer whose transaction is in doubt after an outcome that is not known."""

    def __init__(self, brokers: Brokers, number: int) -> None:
        self.identity = f"p{number}"
        self.in_doubt = False
        self._brokers = brokers
        self._number = number

    def carry_out(
        self, entries: Sequence[Entry], credential: MemberCredential | None = None
    ) -> Outcome:
        self._brokers.credentials.append(credential)
        groups = [str(entry.group) for entry in entries]
        self._brokers.carried.append(groups)
        self.in_doubt = True
        try:
            outcome = self._brokers.fate(groups)
        except (StatementError, RefusedCredentialError):
            self.in_doubt = False
            raise
        except GroupsRefusedError as refuse:
            self.in_doubt = False
            refused = [entry for entry in entries if entry.group in refuse.groups]
            raise RefusedError(refused, "refused") from refuse
        self.in_doubt = outcome is UNKNOWN
        return outcome

    def close(self) -> None:
        self._brokers.closed.append(self._number)


def entries(*groups: str) -> list[Entry]:
    return [Entry((), group) for group in groups]


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def pool(brokers: Brokers) -> ProducerPool:
    return ProducerPool(brokers.open)


def test_one_thread_needs_one_producer(brokers: Brokers, pool: ProducerPool) -> None:
    for _ in range(3):
        assert pool.carry_out(entries("a", "b")) == [COMMITTED] * 2
    assert brokers.opened == [0]
    assert brokers.carried == [["a", "b"]] * 3


def test_nothing_to_commit_is_no_transaction(brokers: Brokers, pool: ProducerPool) -> None:
    assert pool.carry_out([]) == []
    assert brokers.opened == []


def test_transactions_at_the_same_time_have_a_producer_each(
    brokers: Brokers, pool: ProducerPool
) -> None:
    """None waits for another, and none is opened again for later ones."""
    both = threading.Barrier(2, timeout=30)

    def meet(groups: Sequence[str]) -> Outcome:
        both.wait()
        return COMMITTED

    brokers.fate = meet
    for _ in range(5):
        threads = [
            threading.Thread(target=pool.carry_out, args=(entries(name),)) for name in ("a", "b")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(brokers.opened) == [0, 1]
    assert sorted(brokers.carried) == [["a"]] * 5 + [["b"]] * 5


def test_one_whose_records_are_refused_is_found(brokers: Brokers, pool: ProducerPool) -> None:
    error = StatementError("too large")

    def refuse(groups: Sequence[str]) -> Outcome:
        if "c" in groups:
            raise error
        return COMMITTED

    brokers.fate = refuse
    results = pool.carry_out(entries(*"abcde"))
    assert results == [COMMITTED] * 2 + [error] + [COMMITTED] * 2
    assert brokers.opened == [0], "nothing is in doubt"


def test_the_others_are_committed_without_those_that_are_refused(
    brokers: Brokers, pool: ProducerPool
) -> None:
    def refuse(groups: Sequence[str]) -> Outcome:
        for some in (("b", "d"), ("e",)):
            if some[0] in groups:
                raise GroupsRefusedError(*some)
        return COMMITTED

    brokers.fate = refuse
    aborted = Outcome.ABORTED
    assert pool.carry_out(entries(*"abcde")) == [COMMITTED, aborted, COMMITTED, aborted, aborted]
    assert brokers.carried == [[*"abcde"], [*"ace"], [*"ac"]], "and not by halves"
    assert brokers.opened == [0], "nothing is in doubt"


def test_a_refused_credential_is_that_of_all(brokers: Brokers, pool: ProducerPool) -> None:
    """Halves would be refused as well."""
    error = RefusedCredentialError("old")

    def refuse(_groups: Sequence[str]) -> Outcome:
        raise error

    brokers.fate = refuse
    credential = MemberCredential(("leases", 0), b"shown")
    assert pool.carry_out(entries("a", "b"), credential) == [error] * 2
    assert brokers.carried == [["a", "b"]]
    assert brokers.opened == [0], "nothing is in doubt"
    brokers.fate = commits
    assert pool.carry_out(entries("a"), credential) == [COMMITTED]
    assert brokers.credentials == [credential] * 2


@pytest.mark.parametrize("credential", [None, MemberCredential(("leases", 0), b"shown")])
def test_each_attempt_has_the_credential(
    brokers: Brokers, pool: ProducerPool, credential: MemberCredential | None
) -> None:
    def refuse(groups: Sequence[str]) -> Outcome:
        if "b" in groups and len(groups) > 1:
            raise GroupsRefusedError("b")
        return COMMITTED

    brokers.fate = refuse
    pool.carry_out(entries("a", "b", "c"), credential)
    assert brokers.credentials == [credential] * len(brokers.carried)
    assert len(brokers.carried) > 1


@pytest.mark.parametrize("fate", [UNKNOWN, FencedError("x"), UnavailableError("x"), ValueError()])
def test_what_is_in_doubt_is_ended_before_anything_else(
    brokers: Brokers, pool: ProducerPool, fate: Outcome | Exception
) -> None:
    def fail(_groups: Sequence[str]) -> Outcome:
        if isinstance(fate, Exception):
            raise fate
        return fate

    brokers.fate = fail
    assert pool.carry_out(entries("a", "b")) == [fate] * 2
    assert (brokers.opened, brokers.closed) == ([0], [0])
    assert brokers.carried == [["a", "b"]], "no halves: the fault is that of all"
    brokers.fate = commits
    pool.resolve()
    assert brokers.opened == [0, 0], "another producer of the same identity"
    assert pool.carry_out(entries("a")) == [COMMITTED]
    assert brokers.opened == [0, 0]


def test_another_query_ends_it_too(brokers: Brokers, pool: ProducerPool) -> None:
    brokers.fate = lambda _: UNKNOWN
    pool.carry_out(entries("a"))
    brokers.fate = commits
    assert pool.carry_out(entries("b")) == [COMMITTED]
    assert brokers.opened == [0, 0]


def test_as_long_as_it_cannot_be_ended_nothing_is_written(
    brokers: Brokers, pool: ProducerPool
) -> None:
    brokers.fate = lambda _: UNKNOWN
    pool.carry_out(entries("a"))
    brokers.fate, brokers.away = commits, True
    for _ in range(2):
        with pytest.raises(UnavailableError, match="away"):
            pool.resolve()
        results = pool.carry_out(entries("b", "c"))
        assert [type(result) for result in results] == [UnavailableError] * 2
    assert brokers.carried == [["a"]]
    brokers.away = False
    assert pool.carry_out(entries("b")) == [COMMITTED]
    assert brokers.opened == [0, 0]


def test_a_producer_that_could_not_be_opened_is_opened_later(
    brokers: Brokers, pool: ProducerPool
) -> None:
    brokers.away = True
    assert isinstance(pool.carry_out(entries("a"))[0], UnavailableError)
    brokers.away = False
    assert pool.carry_out(entries("a")) == [COMMITTED]
    assert brokers.opened == [0]


def test_a_closed_pool_has_no_producers(brokers: Brokers, pool: ProducerPool) -> None:
    pool.carry_out(entries("a"))

    def close(_groups: Sequence[str]) -> Outcome:
        pool.close()
        return COMMITTED

    brokers.fate = close
    assert pool.carry_out(entries("a")) == [COMMITTED]
    assert brokers.closed == [0], "when it was returned"
    pool.close()
    result: Any = pool.carry_out(entries("a"))[0]
    assert isinstance(result, UnavailableError)
    assert brokers.opened == [0]
