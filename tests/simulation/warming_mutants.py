"""Planted bugs of copies and warm-ups, which the warming worlds have to notice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from millstream.cluster import copies as reports
from millstream.log.assignment import agreement, balance
from millstream.log.assignment.balance import Wanted
from millstream.log.assignment.group_assignment import Copies, Limits
from millstream.log.assignment.leader import Leader
from tests.simulation.warming import Member, WarmingWorld

Planted = Callable[..., Any]


def _complete(_right: Any, _hosted: Any, _partition: int, _end: int | None) -> int:
    """Each copy says that it is up to date."""
    return 0


def _all_empty(right: Any, instances: Any, stateful: Any) -> Mapping[Any, int]:
    """A task with state is taken for one without."""
    return dict.fromkeys(right(instances, stateful), 0)


def _unfollowed(_right: Any, _world: WarmingWorld, _member: Member) -> Mapping[str, frozenset[int]]:
    """No member brings a copy up to date when it is asked to."""
    return {}


def _unprobed(right: Any, leader: Leader, tasks: Any, _now: float) -> Any:
    """The leader never looks again whether copies are up to date."""
    return right(leader, tasks, 0.0)


def _restless(right: Any, current: Any, joined: Any, copies: Copies, limits: Limits) -> Wanted:
    """A task goes to another copy that is as good as that of its owner."""
    wanted: Wanted = right(current, joined, copies, limits)
    targets = dict(wanted.targets)
    for task, member in wanted.targets.items():
        others = [one for one, lag in copies.lags.get(task, {}).items() if lag == 0]
        targets[task] = next((one for one in sorted(others) if one != member), member)
    return replace(wanted, targets=targets)


def _copyless(right: Any, task: Any, spread: Any, copies: Copies) -> str:
    """Who gets a task without an owner does not depend on copies."""
    member: str = right(task, spread, replace(copies, stateful=()))
    return member


def _hasty(right: Any, placed: Any, ideal: Any, copies: Copies, limits: Limits) -> Wanted:
    """Tasks move before the copy is up to date."""
    wanted: Wanted = right(placed, ideal, copies, replace(limits, warmups=0))
    return wanted


def _unlimited(right: Any, placed: Any, ideal: Any, copies: Copies, limits: Limits) -> Wanted:
    """All copies are brought up to date at once."""
    wanted: Wanted = right(placed, ideal, copies, replace(limits, warmups=99))
    return wanted


WARMING_MUTANTS: dict[str, tuple[Any, str, Planted]] = {
    "a copy says that it is up to date and is not": (reports, "_lag", _complete),
    "tasks with state are taken for empty ones": (reports, "_ends", _all_empty),
    "a warm-up is not followed, and never ends": (WarmingWorld, "warmups", _unfollowed),
    "warm-ups are not looked at again": (Leader, "next", _unprobed),
    "tasks move between equal copies": (agreement, "balanced", _restless),
    "copies do not count when an owner is gone": (balance, "_fitting", _copyless),
    "tasks move without a warm-up": (balance, "_affordable", _hasty),
    "more warm-ups at once than allowed": (balance, "_affordable", _unlimited),
}
"""By name: where the bug is planted, and what is there instead."""
