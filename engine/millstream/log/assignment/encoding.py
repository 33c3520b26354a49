"""The records of the assignment topic as JSON. Members are numbered, because their ids are long."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, assert_never

from millstream.log.assignment.group_assignment import (
    NOBODY,
    GroupAssignment,
    Joined,
    Left,
    Record,
    Released,
    Seated,
    TaskOwner,
)

VERSION = 1


def encode(record: Record) -> bytes:
    """The value of a record."""
    return json.dumps(_data(record), separators=(",", ":")).encode()


def decode(value: bytes) -> Record | None:
    """The record; None if it is of no kind that this version knows."""
    try:
        data = json.loads(value)
        if data["version"] != VERSION:
            return None
        return _record(data)
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _data(record: Record) -> dict[str, Any]:
    match record:
        case GroupAssignment():
            return _of_assignment(record)
        case Seated(member, seats):
            return {"version": VERSION, "member": member, "seated": sorted(seats)}
        case Joined(member, queries):
            return {"version": VERSION, "member": member, "joined": dict(queries)}
        case Left(member, left):
            return {"version": VERSION, "member": member, "left": sorted(left)}
        case Released(member, number, tasks):
            released = {"number": number, "released": sorted(map(list, tasks))}
            return {"version": VERSION, "member": member, **released}
        case _:
            assert_never(record)


def _of_assignment(record: GroupAssignment) -> dict[str, Any]:
    numbers: dict[str, int] = {NOBODY: 0}

    def numbered(member: str) -> int:
        return numbers.setdefault(member, len(numbers))

    tasks = {
        group: [[numbered(t.owner), numbered(t.target), t.since] for t in entries]
        for group, entries in record.tasks.items()
    }
    joined = {group: sorted(map(numbered, sorted(found))) for group, found in record.joined.items()}
    seats = [[number, numbered(member)] for number, member in record.seats.items()]
    warmups = [[*task, numbered(member)] for task, member in record.warmups.items()]
    return {
        "version": VERSION,
        "number": record.number,
        "read": record.read,
        "members": list(numbers),
        "tasks": tasks,
        "joined": joined,
        "seats": seats,
        "warmups": warmups,
    }


def _record(data: Mapping[str, Any]) -> Record:
    if "members" in data:
        names: list[str] = data["members"]
        return GroupAssignment(
            int(data["number"]),
            int(data["read"]),
            {
                group: tuple(TaskOwner(names[o], names[t], int(since)) for o, t, since in entries)
                for group, entries in data["tasks"].items()
            },
            {
                group: frozenset(names[number] for number in found)
                for group, found in data["joined"].items()
            },
            {int(number): names[member] for number, member in data["seats"]},
            {(group, int(p)): names[number] for group, p, number in data["warmups"]},
        )
    member: str = data["member"]
    if "seated" in data:
        return Seated(member, frozenset(map(int, data["seated"])))
    if "joined" in data:
        return Joined(member, {group: int(count) for group, count in data["joined"].items()})
    if "left" in data:
        return Left(member, frozenset(map(str, data["left"])))
    released = frozenset((str(group), int(p)) for group, p in data["released"])
    return Released(member, int(data["number"]), released)
