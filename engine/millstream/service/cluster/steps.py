"""The steps of a snapshot that several instances take together, and how they travel between them.

The instance that has the pull query sends each step to all others and waits for their answers:
how far each of the queries has come there.
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
class Hold:
    """Let no thread work on these queries, for so many seconds at most."""

    query_ids: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Bring:
    """Have a query that is held read up to these offsets, and commit."""

    query_id: str
    bounds: Mapping[TopicPartition, int]
    seconds: float


@dataclass(frozen=True, slots=True)
class Take:
    """Keep a snapshot of the state as it is, and let the queries go on."""


@dataclass(frozen=True, slots=True)
class End:
    """Let everything go that is still held or kept."""


Step = Hold | Bring | Take | End
ProgressByQuery = Mapping[str, Reached]
"""How far each query has come on the instance that answers, by its id."""
Send = Callable[[str, str, Step, float], ProgressByQuery]
"""Has the instance at an address do a step of the snapshot with this id, and waits for so many
seconds; UnavailableError when it cannot."""


def step_bytes(snapshot_id: str, step: Step) -> bytes:
    """A step as it travels."""
    entry: dict[str, Any] = {"version": VERSION, "snapshot": snapshot_id}
    match step:
        case Hold():
            entry |= {"step": "hold", "queries": list(step.query_ids), "seconds": step.seconds}
        case Bring():
            entry |= {"step": "bring", "query": step.query_id, "seconds": step.seconds}
            entry["bounds"] = _listed(step.bounds)
        case Take():
            entry["step"] = "take"
        case End():
            entry["step"] = "end"
        case _:
            assert_never(step)
    return json.dumps(entry).encode()


def read_step(content: bytes) -> tuple[str, Step]:
    """The id of the snapshot and the step that travelled; StatementError for what is none."""
    try:
        entry = json.loads(content)
        if entry["version"] != VERSION:
            raise ValueError("it is of another version")
        return str(entry["snapshot"]), _step(entry)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StatementError("This is no step of a snapshot") from error


def _step(entry: dict[str, Any]) -> Step:
    match entry["step"]:
        case "hold":
            return Hold(tuple(str(name) for name in entry["queries"]), float(entry["seconds"]))
        case "bring":
            bounds = _mapped(entry["bounds"])
            return Bring(str(entry["query"]), bounds, float(entry["seconds"]))
        case "take":
            return Take()
        case "end":
            return End()
    raise ValueError("the step is not known")


def answer_bytes(answer: ProgressByQuery) -> bytes:
    """An answer as it travels."""
    return json.dumps(
        {
            query_id: {
                "state": reached.state.value,
                "error": reached.error,
                "tasks": sorted(reached.tasks),
                "positions": _listed(reached.positions),
                "committed": reached.committed,
            }
            for query_id, reached in answer.items()
        }
    ).encode()


def read_answer(content: bytes) -> ProgressByQuery:
    """The answer that travelled; StatementError for what is none."""
    try:
        return {
            str(query_id): Reached(
                QueryState(entry["state"]),
                str(entry["error"]),
                frozenset(int(task) for task in entry["tasks"]),
                _mapped(entry["positions"]),
                bool(entry["committed"]),
            )
            for query_id, entry in json.loads(content).items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StatementError("This is no answer to a step of a snapshot") from error


def _listed(offsets: Mapping[TopicPartition, int]) -> list[list[str | int]]:
    return [[topic, partition, at] for (topic, partition), at in sorted(offsets.items())]


def _mapped(listed: Any) -> dict[TopicPartition, int]:
    return {(str(topic), int(partition)): int(at) for topic, partition, at in listed}
