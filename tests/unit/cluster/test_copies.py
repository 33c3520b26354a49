"""How far the copies of tasks are behind, and which standby tasks an instance keeps."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.cluster.copies import copies
from millstream.cluster.metadata import (
    HostedPartitions,
    InstanceMetadata,
    PeerView,
    assigned_standbys,
    updated_view,
)
from millstream.cluster.standby_tasks import StandbyTasks
from millstream.log.assignment.group_assignment import member_name

A, B, C = (member_name("", process, "1") for process in "abc")


def said(process: str, hosted: HostedPartitions) -> InstanceMetadata:
    return InstanceMetadata(process, process, queries={"Q": hosted})


OWNER = said("a", HostedPartitions(frozenset({0}), positions={0: 900}))


def test_a_standby_measures_its_own_lag() -> None:
    found = copies(
        [OWNER, said("b", HostedPartitions(standby={0: 7}, positions={0: 400}))], "Q", [A, B]
    )
    assert found.lags == {("Q", 0): {A: 0, B: 7}}
    assert not found.empty


def test_without_a_record_it_is_no_copy_however_short_the_changelog_is() -> None:
    short = said("a", HostedPartitions(frozenset({0}), positions={0: 3}))
    for hosted in (HostedPartitions(standby={0: 3}), HostedPartitions(restoring={0: 0})):
        assert copies([short, said("b", hosted)], "Q", [A, B]).lags == {("Q", 0): {A: 0}}


def test_a_task_that_has_written_nothing_is_empty() -> None:
    new = said("a", HostedPartitions(frozenset({0}), positions={0: 0}))
    found = copies([new, said("b", HostedPartitions(standby={0: 0}))], "Q", [A, B])
    assert found.empty == {("Q", 0)}
    assert found.lags == {("Q", 0): {A: 0, B: 0}}


def test_a_state_that_is_restored_lacks_what_the_owner_has_written() -> None:
    new = said("b", HostedPartitions(restoring={0: 40}, positions={0: 400}))
    assert copies([OWNER, new], "Q", [A, B]).lags["Q", 0][B] == 500


def test_queries_without_state_and_instances_that_are_no_members_do_not_count() -> None:
    gone = said("c", HostedPartitions(frozenset({0}), positions={0: 950}))
    old = said("b", HostedPartitions(positions={0: 900}))
    assert copies([OWNER, gone, old], "Q", [A, B]).lags == {("Q", 0): {A: 0, B: 50}}
    assert copies([OWNER], "", [A]).lags == {}


def test_without_an_owner_the_farthest_state_is_the_best_and_none_is_up_to_date() -> None:
    left = [said(p, HostedPartitions(positions={0: at})) for p, at in (("b", 10), ("c", 20))]
    lags = copies(left, "Q", [B, C]).lags["Q", 0]
    assert 1 << 60 < lags[C] < lags[B]


def test_an_instance_joins_again_under_another_name_with_its_copies() -> None:
    again = member_name("", "a", "2")
    assert copies([OWNER], "Q", [again]).lags == {("Q", 0): {again: 0}}
    assert copies([OWNER], "Q", [A, again]).lags == {("Q", 0): {A: 0, again: 0}}


# ---- racks --------------------------------------------------------------------------------------


def test_standbys_are_in_other_racks() -> None:
    racks = {f"i{number}": "xyz"[number % 3] for number in range(9)}
    for partition in range(50):
        chosen = assigned_standbys("Q", partition, 2, racks, "i0", racks)
        assert {racks[name] for name in chosen} == {"y", "z"}
        three = assigned_standbys("Q", partition, 3, racks, "i0", racks)
        assert three[:2] == chosen and racks[three[2]] in "xyz"


def test_without_racks_nothing_changes() -> None:
    names = [f"i{number}" for number in range(9)]
    plain = [assigned_standbys("Q", p, 3, names, "i0") for p in range(50)]
    assert plain == [assigned_standbys("Q", p, 3, names, "i0", {"i0": ""}) for p in range(50)]
    assert len({name for chosen in plain for name in chosen}) == 8


# ---- what an instance follows -------------------------------------------------------------------


class ThisInstance:
    """What `StandbyTasks` asks for; it notes what is asked of it."""

    rack = "x"

    def __init__(self, *peers: InstanceMetadata) -> None:
        self.live: tuple[PeerView, ...] = tuple(updated_view(None, peer, 0, 0) for peer in peers)
        self.own = said("b", HostedPartitions())
        self.asked: list[tuple[str, set[int]]] = []
        self.warm: dict[str, frozenset[int]] = {}

    def metadata(self) -> InstanceMetadata:
        return self.own

    def instances(self) -> frozenset[str]:
        return frozenset({"b", *(view.metadata.instance for view in self.live)})

    def partitions(self, query_id: str) -> int:
        return 2

    def standby(self, query_id: str, partitions: frozenset[int]) -> None:
        self.asked.append((query_id, set(partitions)))

    def warmups(self) -> Mapping[str, frozenset[int]]:
        return self.warm

    def standbys(self, replicas: int) -> StandbyTasks:
        return StandbyTasks(self, self, "b", replicas, self.warmups)  # type: ignore[arg-type]


def test_an_instance_without_standbys_asks_for_nothing() -> None:
    instance = ThisInstance(OWNER)
    instance.metadata = None  # type: ignore[assignment, method-assign]
    instance.standbys(0).update()
    assert instance.asked == []


def test_a_warm_up_is_followed_until_it_is_over() -> None:
    instance = ThisInstance(OWNER)
    tasks = instance.standbys(0)
    instance.warm = {"Q": frozenset({1})}
    tasks.update()
    instance.warm = {}
    tasks.update()
    tasks.update()
    assert instance.asked == [("Q", {1}), ("Q", set())]


def test_warm_ups_come_beside_the_standbys_of_other_tasks() -> None:
    instance = ThisInstance(OWNER)
    instance.warm = {"Q": frozenset({1}), "R": frozenset({0})}
    instance.own = said("b", HostedPartitions(frozenset({1})))
    instance.standbys(1).update()
    assert instance.asked == [("Q", {0, 1}), ("R", {0})]
