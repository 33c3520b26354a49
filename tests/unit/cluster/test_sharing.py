"""Two engines over one log that share a table, each asking the other for what it lacks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import millstream
from millstream import Database
from millstream.cluster.membership import PeerMembership
from millstream.cluster.metadata import HostedPartitions
from millstream.cluster.scatter_gather import READY_MS
from millstream.cluster.sharing import MembershipThread, join_peers
from millstream.model.errors import StatementError, UnavailableError
from millstream.model.listener import InternalListener
from tests.unit.cluster.two_instances import database


def no_writers() -> tuple[str, ...]:
    return ()


def holding(*partitions: int) -> Callable[[str], HostedPartitions]:
    return lambda _: HostedPartitions(frozenset(partitions))


def test_an_instance_that_has_everything_sends_no_request() -> None:
    with database(frozenset(range(4))) as db:
        before = list(db.execute("SELECT * FROM totals ORDER BY item;"))
        sharing = join_peers(
            db.engine.cluster,
            "one",
            InternalListener(),
            hosted=holding(0, 1, 2, 3),
            writers=no_writers,
        )
        sharing.heartbeat()
        assert list(db.execute("SELECT * FROM totals ORDER BY item;")) == before
        assert sharing.instances() == {"one"}


def test_a_partition_without_an_owner_is_an_error_until_it_has_one() -> None:
    with database(frozenset(range(4))) as db, database(frozenset({3})) as other:
        sharing = join_peers(
            db.engine.cluster,
            "one",
            InternalListener(),
            hosted=holding(0, 1, 2),
            writers=no_writers,
        )
        sharing.heartbeat()
        with pytest.raises(UnavailableError, match="partition 3 "):
            db.execute("SELECT * FROM totals;")
        there = join_peers(
            other.engine.cluster,
            "two",
            InternalListener(token="x"),
            hosted=holding(3),
            writers=no_writers,
        )
        meet(db, other, there)
        sharing.heartbeat()
        with pytest.raises(UnavailableError, match="does not answer"):
            db.execute("SELECT * FROM totals;")
        assert sharing.instances() == {"one", "two"}


def meet(db: Database, other: Database, there: MembershipThread) -> None:
    """Let the other instance present itself on the log of `db`, too."""
    said = there.metadata()
    prefix = db.engine.settings.internal_prefix
    PeerMembership(db.engine.log, prefix, said.instance, said.incarnation).publish(said, 0)


def test_with_the_same_token_they_answer_each_other() -> None:
    with database(frozenset({0, 1, 2})) as db, database(frozenset({3})) as other:
        listener = InternalListener(token="shared")
        here = join_peers(
            db.engine.cluster, "one", listener, hosted=holding(0, 1, 2), writers=no_writers
        )
        there = join_peers(
            other.engine.cluster, "two", listener, hosted=holding(3), writers=no_writers
        )
        meet(db, other, there)
        here.heartbeat()
        with database(frozenset(range(4))) as whole:
            expected = list(whole.execute("SELECT * FROM totals ORDER BY item;"))
        assert list(db.execute("SELECT * FROM totals ORDER BY item;")) == expected


def test_the_others_are_known_as_they_present_themselves() -> None:
    with database(frozenset(range(4))) as db, database(frozenset({3})) as other:
        other.engine.cluster.host_info.host = "two:8088"
        here = join_peers(
            db.engine.cluster, "one", InternalListener(), hosted=holding(0), writers=no_writers
        )
        there = join_peers(
            other.engine.cluster,
            "two",
            InternalListener(token="x"),
            hosted=holding(3),
            writers=no_writers,
        )
        meet(db, other, there)
        here.heartbeat()
        (found,) = db.engine.cluster.host_info.peers()
        assert (found.host, found.alive) == ("two:8088", True)
        assert found.last_seen <= db.engine.clock()
        assert set(found.metadata.states.values()) == {"RUNNING"}
        assert found.metadata.states.keys() == other.engine.catalog.queries.keys()


def test_closing_the_engine_takes_leave() -> None:
    with millstream.connect(properties={READY_MS: "0"}) as db:
        sharing = join_peers(
            db.engine.cluster, "one", InternalListener(), hosted=holding(), writers=no_writers
        )
        sharing.start()
        ears = PeerMembership(db.engine.log, db.engine.settings.internal_prefix, "two", "two1")
        for leave in db.engine.cluster.on_close:
            leave()
        ears.refresh(0)
        assert ears.live() == ()
        db.engine.cluster.on_close.clear()


def test_the_default_token_is_for_one_machine_only() -> None:
    with (
        millstream.connect() as db,
        pytest.raises(StatementError, match="need a token"),
    ):
        join_peers(
            db.engine.cluster,
            "one",
            InternalListener("0.0.0.0:0", plain=True),
            hosted=holding(),
            writers=no_writers,
        )
