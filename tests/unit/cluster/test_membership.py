"""Instances that exchange heartbeats over one log, with injected time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from millstream.cluster import membership
from millstream.cluster.membership import PeerMembership, topic_name
from millstream.cluster.metadata import (
    HostedPartitions,
    InstanceMetadata,
    PeerView,
    assigned_standbys,
    decode_metadata,
    encode_metadata,
    owner,
    standbys,
    updated_view,
)
from millstream.log.batches import TABLES
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Log, Topic
from millstream.log.simulated import SimulatedLog
from millstream.model.batch import raw_batch
from millstream.model.errors import FencedError

PREFIX = "shop."
TOPIC = topic_name(PREFIX)


@pytest.fixture(params=["embedded", "simulated", "markers"])
def log(request: pytest.FixtureRequest) -> Iterator[Log[pa.Table]]:
    opened: Log[pa.Table] = (
        EmbeddedLog.open(":memory:")
        if request.param == "embedded"
        else SimulatedLog(TABLES, markers=request.param == "markers")
    )
    yield opened
    opened.close()


def peers(log: Log[pa.Table], name: str, incarnation: str = "") -> PeerMembership:
    return PeerMembership(log, PREFIX, name, incarnation or f"{name}1")


def holding(name: str, held: HostedPartitions, writers: tuple[str, ...] = ()) -> InstanceMetadata:
    return InstanceMetadata(name, f"{name}1", f"{name}:1", {"CTAS_T_1": held}, writers)


def settled(instance: PeerMembership) -> list[str]:
    """Which incarnations are forgotten when it has settled all that it has to."""
    before = {metadata.incarnation for metadata in instance.dead()}
    while instance.fence_dead():
        pass
    return sorted(before - {metadata.incarnation for metadata in instance.dead()})


def view(*active: int) -> InstanceMetadata:
    return holding("a", HostedPartitions(frozenset(active)))


def test_metadata_is_read_back_as_it_was_written() -> None:
    held = HostedPartitions(frozenset({0, 2}), {1: 17}, {3: 84}, {0: 5, 1: 9})
    metadata = replace(holding("north", held, ("w1", "w2")), rack="r1")
    read = decode_metadata(encode_metadata(metadata))
    assert read is not None
    assert read == metadata
    assert read.hosted("CTAS_T_1").positions == held.positions


def test_metadata_of_an_earlier_version_is_read() -> None:
    metadata = holding("north", HostedPartitions(frozenset({0})))
    entry = json.loads(encode_metadata(metadata))
    del entry["rack"], entry["queries"]["CTAS_T_1"]["positions"]
    assert decode_metadata(json.dumps(entry).encode()) == metadata


def test_a_position_alone_waits_for_the_next_heartbeat(log: Log[pa.Table]) -> None:
    north = peers(log, "north")
    first, second = (
        holding("north", HostedPartitions(frozenset({0}), positions={0: at})) for at in (1, 2)
    )
    assert north.publish(first, 0)
    assert not north.publish(second, 500)
    assert north.publish(second, 1000)


def test_an_incarnation_is_superseded_by_a_later_one_of_its_name(log: Log[pa.Table]) -> None:
    """Also where its first heartbeat is the first record of the topic, and others follow it."""
    first, second = peers(log, "north"), peers(log, "north", "north2")
    first.publish(view(), 0)
    first.refresh(0)
    second.publish(view(), 1)
    first.publish(view(1), 2)
    for one in (first, second):
        one.refresh(2)
    assert first.superseded()
    assert not second.superseded()


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"instance": "a"}', b"\xff"])
def test_what_is_no_metadata_is_passed_over(value: bytes) -> None:
    assert decode_metadata(value) is None


def test_it_is_published_when_something_changes_and_each_second(log: Log[pa.Table]) -> None:
    north = peers(log, "north")
    assert north.publish(view(0), 0)
    assert not north.publish(view(0), 999)
    assert north.publish(view(0), 1000)
    assert north.publish(view(0, 1), 1001)
    assert log.read(TOPIC, 0, 0, 9).count == 3


def test_others_are_live_until_they_are_silent_for_the_session_timeout(log: Log[pa.Table]) -> None:
    north, south = peers(log, "north"), peers(log, "south")
    south.publish(view(), 0)
    for now in (0, 9_000, 10_000):
        north.publish(view(), now)
        north.refresh(now)
        alive = now < 10_000
        assert [s.metadata.instance for s in north.live()] == ["south"] * alive
        assert [p.instance for p in north.dead()] == ["south"] * (not alive)
    south.publish(view(), 10_500)
    north.refresh(10_500)
    assert north.instances() == {"north", "south"}


def test_our_clock_counts_from_when_a_record_was_heard(log: Log[pa.Table]) -> None:
    peers(log, "south").publish(view(), 0)
    late = peers(log, "north")
    late.refresh(1_000_000)
    assert late.instances() == {"north", "south"}


def test_a_suspended_listener_marks_no_instance_as_dead(log: Log[pa.Table]) -> None:
    north, south = peers(log, "north"), peers(log, "south")
    for each in (south, north):
        each.publish(view(), 0)
    north.refresh(0)
    south.publish(view(), 59_000)
    assert north.publish(view(), 60_000) and north.dead() == ()
    north.refresh(60_000)
    assert north.dead() == ()


def test_the_newest_assignment_of_a_partition_counts(log: Log[pa.Table]) -> None:
    ears = peers(log, "ears")
    west, east = peers(log, "west"), peers(log, "east")
    west.publish(view(0, 1), 0)
    east.publish(view(1), 1)
    west.publish(view(0, 1), 2000)
    ears.refresh(2000)
    found = [owner(ears.live(), "CTAS_T_1", p) for p in (0, 1, 2)]
    assert [p and p.instance for p in found] == ["west", "east", None]
    west.publish(view(0), 2100)
    west.publish(view(0, 1), 2200)
    ears.refresh(2200)
    again = owner(ears.live(), "CTAS_T_1", 1)
    assert again is not None and again.instance == "west"


def test_followers_come_with_the_least_behind_first() -> None:
    lags = {"a": 30, "b": 2, "c": 9}
    live = [
        PeerView(holding(name, HostedPartitions(frozenset(), {4: lag})), 0, 0)
        for name, lag in lags.items()
    ]
    assert [p.instance for p in standbys(live, "CTAS_T_1", 4)] == ["b", "c", "a"]
    assert standbys(live, "CTAS_T_1", 5) == ()


def test_a_restoring_owner_is_an_owner() -> None:
    live = [updated_view(None, holding("a", HostedPartitions(restoring={2: 40})), 0, 5)]
    found = owner(live, "CTAS_T_1", 2)
    assert found is not None and found.hosted("CTAS_T_1").restoring[2] == 40


def test_standbys_are_spread_and_move_little() -> None:
    names = [f"host{i}" for i in range(5)]
    before = {p: assigned_standbys("Q", p, 1, names, "host0") for p in range(200)}
    assert {name for (name,) in before.values()} == set(names[1:])
    without = {p: assigned_standbys("Q", p, 1, names[:-1], "host0") for p in range(200)}
    assert all(without[p] == found for p, found in before.items() if found != ("host4",))
    assert assigned_standbys("Q", 0, 3, ["host0"], "host0") == ()


def test_what_a_dead_instance_left_open_is_settled_by_one_of_the_living(log: Log[pa.Table]) -> None:
    log.create_topic(Topic("t", 1))
    north, east, south = (peers(log, name) for name in ("north", "east", "south"))
    left = log.writer("w.south")
    south.publish(holding("south", HostedPartitions(), ("w.south",)), 0)
    for now in (0, 10_000):
        for living in (north, east):
            living.publish(view(), now)
        for living in (north, east):
            living.refresh(now)
    assert settled(north) + settled(east) == ["south1"]
    with pytest.raises(FencedError):
        left.append([Appended("t", 0, raw_batch([(b"k", b"v", 0)]), 1)])
    north.refresh(10_001)
    east.refresh(10_001)
    assert "south" not in north.instances() | east.instances()


def test_settling_goes_on_step_by_step_and_ends_when_the_dead_speaks(log: Log[pa.Table]) -> None:
    north, south = peers(log, "north"), peers(log, "south")
    south.publish(holding("south", HostedPartitions(), ("w1", "w2")), 0)
    for now in (0, 10_000):
        north.publish(view(), now)
        north.refresh(now)
    # Two writers, and its leave.
    assert north.fence_dead()
    south.publish(view(), 10_001)
    north.refresh(10_001)
    assert not north.fence_dead()
    north.publish(view(), 20_001)
    north.refresh(20_001)
    assert [north.fence_dead() for _ in range(2)] == [True, False]


def test_one_that_was_taken_for_dead_presents_itself_again(log: Log[pa.Table]) -> None:
    north, south = peers(log, "north"), peers(log, "south")
    south.publish(view(3), 0)
    north.publish(view(), 0)
    north.refresh(0)
    north.publish(view(), 10_000)
    north.refresh(10_000)
    assert settled(north) == ["south1"]
    south.refresh(10_001)
    assert south.publish(view(3), 10_001)
    north.refresh(10_001)
    assert north.instances() == {"north", "south"}


def test_its_own_last_heartbeat_is_not_decoded(
    log: Log[pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[bytes] = []

    def noted(value: bytes) -> InstanceMetadata | None:
        decoded.append(value)
        return decode_metadata(value)

    monkeypatch.setattr(membership, "decode_metadata", noted)
    one = peers(log, "one")
    metadata = holding("one", HostedPartitions())
    one.publish(metadata, 0)
    one.refresh(100)
    assert decoded == []
    one.publish(metadata, 2_000)
    one.publish(metadata, 4_000)
    one.refresh(4_100)
    assert len(decoded) == 1
    one.close()


def test_a_heartbeat_of_its_own_that_cannot_be_read_is_published_again(log: Log[pa.Table]) -> None:
    one = peers(log, "one")
    metadata = holding("one", HostedPartitions())
    assert one.publish(metadata, 0)
    log.writer("other").append([Appended(TOPIC, 0, raw_batch([(b"one1", b"nothing", 0)]), 1)])
    one.refresh(100)
    assert one.publish(metadata, 200)
    one.close()


def test_a_new_start_supersedes_the_former_one(log: Log[pa.Table]) -> None:
    ears, former = peers(log, "ears"), peers(log, "south", "s1")
    former.publish(view(), 0)
    ears.publish(view(), 0)
    ears.refresh(0)
    again = peers(log, "south", "s2")
    again.publish(view(), 2_900)
    for now, found in ((2_999, []), (3_000, ["s1"])):
        ears.publish(view(now), now)
        ears.refresh(now)
        assert [p.incarnation for p in ears.dead()] == found
    again.refresh(2_950)
    again.publish(view(), 5_950)
    again.refresh(5_950)
    assert [p.incarnation for p in again.dead()] == ["s1"]


def test_a_closing_instance_is_gone_at_once(log: Log[pa.Table]) -> None:
    north, south = peers(log, "north"), peers(log, "south")
    south.publish(view(), 0)
    south.close()
    south.close()
    north.refresh(1)
    assert north.live() == () and north.dead() == ()


def test_no_instance_is_dead_while_our_own_records_are_not_read_back(log: Log[pa.Table]) -> None:
    north, south = peers(log, "north"), peers(log, "south")
    south.publish(view(), 0)
    north.refresh(0)
    north.publish(view(), 1)
    north.publish(view(), 10_001)
    assert north.dead() == ()
    assert not north.fence_dead()
    assert south.publish(view(1), 10_002)
    north.refresh(10_002)
    assert north.instances() == {"north", "south"}


def test_a_heartbeat_that_is_written_late_is_passed_over(log: Log[pa.Table]) -> None:
    """One that was given up: another one was published meanwhile."""
    north, south = peers(log, "north"), peers(log, "south")
    south.publish(view(1), 1_000)
    south.publish(view(2), 2_000)
    late = log.read(TOPIC, 0, 0, 1).records()["value"][0].as_py()
    log.send([Appended(TOPIC, 0, raw_batch([(b"south1", late, 0)]), 1)])
    north.refresh(2_000)
    assert [peer.metadata.hosted("CTAS_T_1").active for peer in north.live()] == [frozenset({2})]
    south.refresh(2_000)
    north.publish(view(), 0)
    north.refresh(2_500)
    south.publish(view(2), 11_999)
    south.refresh(11_999)
    assert south.dead() == ()


def test_records_that_cannot_be_read_are_passed_over(log: Log[pa.Table]) -> None:
    north = peers(log, "north")
    odd: list[tuple[bytes | None, bytes | None, int]] = [
        (None, b"x", 0),
        (b"\xff", b"{}", 0),
        (b"other", encode_metadata(view()), 0),
    ]
    batch: pa.Table = raw_batch(odd)
    log.writer("odd").append([Appended(TOPIC, 0, batch, 3)])
    north.refresh(0)
    assert north.live() == ()
