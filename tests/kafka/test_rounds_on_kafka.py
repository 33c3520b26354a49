"""Commit rounds on a real broker: the members of one process commit in one transaction, each in its
own group, and one that cannot holds back nobody else."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from millstream.log.kafka.assignment_topic import MEMBERS_MAX
from millstream.log.kafka.backend import SWITCH
from millstream.log.kafka.instance_member import InstanceMember
from millstream.log.kafka.log import KafkaLog
from millstream.log.kafka.member import KafkaMember
from millstream.log.kafka.transactions import Transactions
from millstream.log.log import Appended, Outcome, Participant, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import StatementError, UnavailableError
from tests.kafka.parties import Party, append, claims, numbers, until
from tests.kafka.run import cluster, tool

QUERIES = 5
COMMITTED = Outcome.COMMITTED
ONE = [frozenset({0})]


class Queries:
    """The only process of its service, with queries of one task."""

    def __init__(self, party: Party) -> None:
        self.party = party
        self.log: KafkaLog = party.log("classic")
        self.topic = party.topic()
        self.groups = [f"query-{number}" for number in range(QUERIES)]
        self.members: list[KafkaMember] = []
        for group in self.groups:
            member = self.log.join(group, 1)
            assert isinstance(member, KafkaMember)
            self.members.append(member)
        for member in self.members:
            until(lambda member=member: claims(member) == ONE)  # type: ignore[misc]

    def participant(
        self, number: int, value: int, appended: Sequence[Appended[Any]] = ()
    ) -> Participant[Any]:
        """A query that has read one partition of a topic that all of them read."""
        member = self.members[number]
        return Participant(
            member.writer(member.assignment().epoch),
            self.groups[number],
            appended or (append(self.topic, value),),
            {(self.topic, 1): value},
        )

    def round(self, first: int) -> list[Participant[Any]]:
        return [self.participant(number, first + number) for number in range(QUERIES)]

    def positions(self) -> list[int | None]:
        place = (self.topic, 1)
        return [self.log.positions(group, {place}).get(place) for group in self.groups]

    def close(self) -> None:
        for member in self.members:
            member.close()
        for group in self.groups:
            self.log.forget_group(group)


@pytest.fixture
def queries(party: Party) -> Iterator[Queries]:
    made = Queries(party)
    yield made
    made.close()


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes the producer of each commit."""
    made: list[str] = []
    committed = Transactions._committed

    def noted(transactions: Transactions, producer: Producer) -> Outcome:
        made.append(transactions.identity)
        return committed(transactions, producer)

    monkeypatch.setattr(Transactions, "_committed", noted)
    return made


def test_a_round_is_one_transaction(queries: Queries, commits: list[str]) -> None:
    for first in (0, 10):
        assert queries.log.transact_all(queries.round(first)) == [COMMITTED] * QUERIES
    assert len(commits) == 2
    assert len(set(commits)) == 1, "by one producer"
    assert numbers(queries.log, queries.topic) == [*range(5), *range(10, 15)]
    assert queries.positions() == list(range(10, 15))


def test_one_whose_assignment_is_lost_takes_nothing_from_the_others(queries: Queries) -> None:
    round_ = queries.round(0)
    lose(queries.members[3])
    results = queries.log.transact_all(round_)
    assert results == [COMMITTED] * 3 + [Outcome.ABORTED, COMMITTED]
    assert numbers(queries.log, queries.topic) == [0, 1, 2, 4]
    assert queries.positions() == [0, 1, 2, None, 4]


def test_an_old_credential_costs_a_second_attempt(
    queries: Queries, commits: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group has changed, and the process learns of it with the refusal: no query starts over,
    and nothing is written twice."""
    instance = queries.members[0].instance
    old = instance.ask(None)
    assert old is not None
    change_group(queries)
    commits.clear()
    asked: list[Any] = []
    ask = InstanceMember.ask

    def outdated(member: InstanceMember, refused: Any) -> Any:
        asked.append(refused)
        return old if refused is None else ask(member, refused)

    monkeypatch.setattr(InstanceMember, "ask", outdated)
    assert queries.log.transact_all(queries.round(0)) == [COMMITTED] * QUERIES
    assert asked == [None, old]
    assert len(commits) == 1
    assert numbers(queries.log, queries.topic) == [*range(5)]
    assert queries.positions() == [*range(5)]


def test_a_process_that_is_no_member_any_more_commits_nothing(
    queries: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has not learned of it: its tasks are still assigned to it, as far as it knows."""
    old = queries.members[0].instance.ask(None)
    change_group(queries)
    monkeypatch.setattr(InstanceMember, "ask", lambda *_: old)
    round_ = queries.round(0)
    assert queries.log.transact_all(round_) == [Outcome.ABORTED] * QUERIES
    assert round_[0].writer.transact("query-0", [append(queries.topic, 7)], {}) is Outcome.ABORTED
    with pytest.raises(UnavailableError, match="aborted"):
        round_[0].writer.append([append(queries.topic, 8)])
    large = queries.members[1].writer(queries.members[1].assignment().epoch, size=1)
    place = {(queries.topic, 1): 9}
    assert large.transact("query-1", [append(queries.topic, 9)], place) is Outcome.ABORTED
    large.close()
    assert numbers(queries.log, queries.topic) == []
    assert queries.positions() == [None] * QUERIES


def test_what_is_lost_with_the_refusal_is_not_tried_again(
    queries: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = queries.members[0].instance
    old = instance.ask(None)
    change_group(queries)
    ask = InstanceMember.ask

    def outdated(member: InstanceMember, refused: Any) -> Any:
        if refused is None:
            return old
        lose(queries.members[1])
        return ask(member, refused)

    monkeypatch.setattr(InstanceMember, "ask", outdated)
    results = queries.log.transact_all(queries.round(0))
    assert results == [COMMITTED, Outcome.ABORTED] + [COMMITTED] * 3
    assert numbers(queries.log, queries.topic) == [0, 2, 3, 4]
    assert queries.positions() == [0, None, 2, 3, 4]


def change_group(queries: Queries) -> None:
    """A new generation: another process takes part for a moment."""
    log = queries.party.log("classic")
    member = log.join("one-more", 1)
    until(lambda: claims(member) == ONE)
    log.close()
    until(lambda: len(queries.members[0].instance._claimed) == MEMBERS_MAX)


def lose(member: KafkaMember) -> None:
    """Have it learn that it has lost its task."""
    instance = member.instance
    with instance._news:
        instance._tasks._queries[member.group].move(frozenset(), lost=True)


def test_one_whose_record_is_refused_fails_alone(queries: Queries) -> None:
    round_ = queries.round(0)
    large = raw_batch([(b"k", random.Random(1).randbytes(11_000_000), 1)])
    round_[1] = queries.participant(1, 1, (Appended(queries.topic, 0, large, 1),))
    for _ in range(2):
        results = queries.log.transact_all(round_)
        assert isinstance(results.pop(1), StatementError)
        assert results == [COMMITTED] * (QUERIES - 1)
    assert numbers(queries.log, queries.topic) == [0, 2, 3, 4] * 2
    assert queries.positions() == [0, None, 2, 3, 4]


def test_one_whose_topic_is_gone_fails_alone(queries: Queries) -> None:
    other = f"{queries.topic}-other"
    queries.log.create_topic(Topic(other, 1))
    round_ = queries.round(0)
    round_[4] = queries.participant(4, 4, (append(other, 4),))
    queries.log.delete_topic(other)
    results = queries.log.transact_all(round_)
    assert isinstance(results.pop(4), StatementError)
    assert results == [COMMITTED] * (QUERIES - 1)
    assert queries.positions() == [0, 1, 2, 3, None]


def test_one_that_was_closed_fails_alone(queries: Queries) -> None:
    round_ = queries.round(0)
    round_[0].writer.close()
    results = queries.log.transact_all(round_)
    assert isinstance(results.pop(0), UnavailableError)
    assert results == [COMMITTED] * (QUERIES - 1)


@pytest.mark.parametrize("written", [False, True], ids=["not committed", "committed"])
def test_a_commit_in_doubt_is_in_doubt_for_all(
    queries: Queries, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    """Afterwards it is decided before anybody reads positions, and the others go on."""
    assert queries.log.transact_all(queries.round(0)) == [COMMITTED] * QUERIES
    committed = Transactions._committed

    def lost(transactions: Transactions, producer: Producer) -> Outcome:
        if written:
            committed(transactions, producer)
        return Outcome.UNKNOWN

    monkeypatch.setattr(Transactions, "_committed", lost)
    assert queries.log.transact_all(queries.round(10)) == [Outcome.UNKNOWN] * QUERIES
    monkeypatch.undo()
    queries.members[0].writer(queries.members[0].assignment().epoch)
    assert queries.positions() == (list(range(10, 15)) if written else list(range(5)))
    assert queries.log.transact_all(queries.round(20)) == [COMMITTED] * QUERIES
    expected = [*range(5), *(range(10, 15) if written else ()), *range(20, 25)]
    assert numbers(queries.log, queries.topic) == expected


def test_a_fenced_producer_is_replaced(queries: Queries) -> None:
    """As when the coordinator took the process for dead."""
    round_ = queries.round(0)
    assert queries.log.transact_all(round_) == [COMMITTED] * QUERIES
    usurper = queries.log._open_transactions(0)
    assert queries.log.transact_all(queries.round(10)) == [Outcome.UNKNOWN] * QUERIES
    assert queries.log.transact_all(queries.round(20)) == [COMMITTED] * QUERIES
    usurper.close()
    assert numbers(queries.log, queries.topic) == [*range(5), *range(20, 25)]
    assert queries.positions() == list(range(20, 25))


def test_a_member_with_a_fault_keeps_no_result_from_the_others(queries: Queries) -> None:
    """After a producer was fenced, each member is asked whether it was superseded."""
    assert queries.log.transact_all(queries.round(0)) == [COMMITTED] * QUERIES
    round_ = queries.round(10)
    usurper = queries.log._open_transactions(0)
    fault = StatementError("no access to the group")
    writer: Any = round_[3].writer
    writer.member = Faulty(writer.member, fault)
    unknown = Outcome.UNKNOWN
    assert queries.log.transact_all(round_) == [unknown] * 3 + [fault, unknown]
    usurper.close()


class Faulty:
    """A member that has learned of a fault while its transaction was carried out."""

    def __init__(self, member: Any, fault: Exception) -> None:
        self._member = member
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._member, name)

    def assignment(self) -> None:
        raise self._fault


def test_a_broker_that_does_not_answer_ends_the_round_at_once(
    queries: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not tried with each half: that would take as often as long."""
    attempts: list[int] = []

    def silent(*_: object, **__: object) -> None:
        attempts.append(1)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "silence", False, False, True))

    round_ = queries.round(0)
    monkeypatch.setattr(Transactions, "_send", silent)
    assert queries.log.transact_all(round_) == [Outcome.ABORTED] * QUERIES
    assert len(attempts) == 1
    monkeypatch.undo()
    assert queries.log.transact_all(queries.round(5)) == [COMMITTED] * QUERIES


@pytest.mark.timeout(300)
@pytest.mark.parametrize("client", ["plain", "compiled"])
def test_a_partition_without_a_leader_holds_up_nobody_else(
    servers: str, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query that writes to it is aborted alone; on brokers of its own, one of which is away."""
    assert servers
    monkeypatch.setenv(SWITCH, client)
    with cluster(3) as (own, brokers):
        party = Party(own)
        queries = Queries(party)
        alone, safe = f"{party.namespace}alone", f"{party.namespace}safe"
        queries.log.create_topic(Topic(alone, 1, 1))
        queries.log.create_topic(Topic(safe, 1, 3))

        def commit() -> list[Any]:
            """By writers for the tasks as they are assigned now."""
            round_ = [queries.participant(n, n, (append(safe, n),)) for n in range(QUERIES)]
            round_[2] = queries.participant(2, 2, (append(alone, 2), append(safe, 2)))
            return queries.log.transact_all(round_)

        assert commit() == [COMMITTED] * QUERIES
        described = AdminClient({"bootstrap.servers": own}).list_topics(alone, timeout=30)
        tool(brokers, "kill", str(described.topics[alone].partitions[0].leader))
        results: list[Any] = []
        while results != [COMMITTED] * 2 + [Outcome.ABORTED] + [COMMITTED] * 2:
            # The coordinators of groups and transactions may have been on it, too.
            until(lambda: all(claims(member) == ONE for member in queries.members))
            with suppress(UnavailableError):
                results = commit()
        assert set(numbers(queries.log, safe)) == set(range(QUERIES))
        party.logs[0].close()
