"""The steps of a snapshot that spans several instances, and their serialisation.

The instance that runs the pull query sends each step to all other instances and waits for the
responses: how far each query has read there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from millstream.log.log import TopicPartition
from millstream.model.errors import StatementError
from millstream.runtime.alignment import Reached
from millstream.runtime.spec import QueryState

VERSION = 1


@dataclass(frozen=True, slots=True)
class HoldQueries:
    """Keep all processing threads away from these queries, for at most `seconds`."""

    query_ids: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class AdvanceQuery:
    """Make a held query read up to the offsets `bounds`, and commit."""

    query_id: str
    bounds: Mapping[TopicPartition, int]
    seconds: float


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Take a snapshot of the state as it is, and let the queries continue."""


@dataclass(frozen=True, slots=True)
class ReleaseSnapshot:
    """Let the held queries continue, and drop the snapshot."""


SnapshotStep = HoldQueries | AdvanceQuery | TakeSnapshot | ReleaseSnapshot
ProgressByQuery = Mapping[str, Reached]
"""How far each query has read on the instance that responds, by query id."""
SendStep = Callable[[str, str, SnapshotStep, float], ProgressByQuery]
"""Has the instance at an address execute a step of the snapshot with this id, and waits at most
the given seconds; raises UnavailableError when the instance cannot."""


def encode_step(snapshot_id: str, step: SnapshotStep) -> bytes:
    """Serialise a step."""
    entry: dict[str, Any] = {"version": VERSION, "snapshot": snapshot_id}
    match step:
        case HoldQueries():
            entry |= {"step": "hold", "queries": list(step.query_ids), "seconds": step.seconds}
        case AdvanceQuery():
            entry |= {"step": "bring", "query": step.query_id, "seconds": step.seconds}
            entry["bounds"] = _offsets_to_json(step.bounds)
        case TakeSnapshot():
            entry["step"] = "take"
        case ReleaseSnapshot():
            entry["step"] = "end"
        case _:
            assert_never(step)
    return json.dumps(entry).encode()


def decode_step(content: bytes) -> tuple[str, SnapshotStep]:
    """Deserialise the id of a snapshot and a step; StatementError for any other content."""
    try:
        entry = json.loads(content)
        if entry["version"] != VERSION:
            raise ValueError("it is of another version")
        return str(entry["snapshot"]), _decode_step(entry)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StatementError("This is no step of a snapshot") from error


def _decode_step(entry: dict[str, Any]) -> SnapshotStep:
    match entry["step"]:
        case "hold":
            return HoldQueries(
                tuple(str(name) for name in entry["queries"]), float(entry["seconds"])
            )
        case "bring":
            bounds = _offsets_from_json(entry["bounds"])
            return AdvanceQuery(str(entry["query"]), bounds, float(entry["seconds"]))
        case "take":
            return TakeSnapshot()
        case "end":
            return ReleaseSnapshot()
    raise ValueError("the step is not known")


def encode_progress(progress: ProgressByQuery) -> bytes:
    """Serialise the response to a step."""
    return json.dumps(
        {
            query_id: {
                "state": reached.state.value,
                "error": reached.error,
                "tasks": sorted(reached.tasks),
                "positions": _offsets_to_json(reached.positions),
                "committed": reached.committed,
            }
            for query_id, reached in progress.items()
        }
    ).encode()


def decode_progress(content: bytes) -> ProgressByQuery:
    """Deserialise the response to a step; StatementError for any other content."""
    try:
        return {
            str(query_id): Reached(
                QueryState(entry["state"]),
                str(entry["error"]),
                frozenset(int(task) for task in entry["tasks"]),
                _offsets_from_json(entry["positions"]),
                bool(entry["committed"]),
            )
            for query_id, entry in json.loads(content).items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StatementError("This is no answer to a step of a snapshot") from error


def _offsets_to_json(offsets: Mapping[TopicPartition, int]) -> list[list[str | int]]:
    return [[topic, partition, at] for (topic, partition), at in sorted(offsets.items())]


def _offsets_from_json(entries: Any) -> dict[TopicPartition, int]:
    return {(str(topic), int(partition)): int(at) for topic, partition, at in entries}
