"""Two engines over one log that share a table, each asking the other for what it lacks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import millstream
from millstream import Database
from millstream.model.errors import StatementError, UnavailableError
from millstream.model.listener import InternalListener
from millstream.service.cluster.membership import PeerMembership
from millstream.service.cluster.metadata import Held
from millstream.service.cluster.scatter_gather import READY_MS
from millstream.service.cluster.sharing import Sharing, share
from tests.unit.service.two_instances import database


def no_writers() -> tuple[str, ...]:
    return ()


def holding(*partitions: int) -> Callable[[str], Held]:
    return lambda _: Held(frozenset(partitions))


def test_an_instance_that_has_everything_sends_no_request() -> None:
    with database(frozenset(range(4))) as db:
        before = list(db.execute("SELECT * FROM totals ORDER BY item;"))
        sharing = share(
            db.engine, "one", InternalListener(), held=holding(0, 1, 2, 3), writers=no_writers
        )
        sharing.beat()
        assert list(db.execute("SELECT * FROM totals ORDER BY item;")) == before
        assert sharing.instances() == {"one"}


def test_a_partition_without_an_owner_is_an_error_until_it_has_one() -> None:
    with database(frozenset(range(4))) as db, database(frozenset({3})) as other:
        sharing = share(
            db.engine, "one", InternalListener(), held=holding(0, 1, 2), writers=no_writers
        )
        sharing.beat()
        with pytest.raises(UnavailableError, match="partition 3 "):
            db.execute("SELECT * FROM totals;")
        there = share(
            other.engine, "two", InternalListener(token="x"), held=holding(3), writers=no_writers
        )
        meet(db, other, there)
        sharing.beat()
        with pytest.raises(UnavailableError, match="does not answer"):
            db.execute("SELECT * FROM totals;")
        assert sharing.instances() == {"one", "two"}


def meet(db: Database, other: Database, there: Sharing) -> None:
    """Let the other instance present itself on the log of `db`, too."""
    said = there.presence()
    prefix = db.engine.settings.internal_prefix
    PeerMembership(db.engine.log, prefix, said.instance, said.incarnation).publish(said, 0)


def test_with_the_same_token_they_answer_each_other() -> None:
    with database(frozenset({0, 1, 2})) as db, database(frozenset({3})) as other:
        door = InternalListener(token="shared")
        here = share(db.engine, "one", door, held=holding(0, 1, 2), writers=no_writers)
        there = share(other.engine, "two", door, held=holding(3), writers=no_writers)
        meet(db, other, there)
        here.beat()
        with database(frozenset(range(4))) as whole:
            expected = list(whole.execute("SELECT * FROM totals ORDER BY item;"))
        assert list(db.execute("SELECT * FROM totals ORDER BY item;")) == expected


def test_the_others_are_known_as_they_present_themselves() -> None:
    with database(frozenset(range(4))) as db, database(frozenset({3})) as other:
        other.engine.host_info.host = "two:8088"
        here = share(db.engine, "one", InternalListener(), held=holding(0), writers=no_writers)
        there = share(
            other.engine, "two", InternalListener(token="x"), held=holding(3), writers=no_writers
        )
        meet(db, other, there)
        here.beat()
        (found,) = db.engine.host_info.neighbours()
        assert (found.host, found.alive) == ("two:8088", True)
        assert found.heard_at <= db.engine.clock()
        assert set(found.presence.states.values()) == {"RUNNING"}
        assert found.presence.states.keys() == other.engine.catalog.queries.keys()


def test_closing_the_engine_takes_leave() -> None:
    with millstream.connect(properties={READY_MS: "0"}) as db:
        sharing = share(db.engine, "one", InternalListener(), held=holding(), writers=no_writers)
        sharing.start()
        ears = PeerMembership(db.engine.log, db.engine.settings.internal_prefix, "two", "two1")
        sharing.changed()
        for leave in db.engine.on_close:
            leave()
        ears.refresh(0)
        assert ears.live() == ()
        db.engine.on_close.clear()


def test_the_default_token_is_for_one_machine_only() -> None:
    with (
        millstream.connect() as db,
        pytest.raises(StatementError, match="need a token"),
    ):
        share(
            db.engine,
            "one",
            InternalListener("0.0.0.0:0", plain=True),
            held=holding(),
            writers=no_writers,
        )
