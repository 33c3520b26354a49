"""Running the steps of a program on a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from millstream.operators.compile import OUT
from millstream.operators.program import Call, Program, Sql, Step, Upsert
from millstream.state.store import Session

_SMALL = 1000
"""Relations of at most so many rows may stay registered until the next run replaces them."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A program with what its runs need to know: which relations later SQL mentions."""

    program: Program
    fast: tuple[tuple[Step, bool], ...]
    exact: tuple[tuple[Step, bool], ...]


def ready(program: Program) -> Ready:
    """Look through a program once."""
    return Ready(program, _mentioned(program.steps), _mentioned(program.exact))


def _mentioned(steps: Sequence[Step]) -> tuple[tuple[Step, bool], ...]:
    """Each step with whether its relation must be visible to SQL."""
    result = []
    for index, step in enumerate(steps):
        target = None if isinstance(step, Upsert) else step.target
        later = steps[index + 1 :]
        result.append((step, any(_reads(other, target) for other in later)))
    return tuple(result)


def _reads(step: Step, target: str | None) -> bool:
    match step:
        case Sql(_, text):
            return target is not None and f'"{target}"' in text
        case Upsert(_, source):
            return source == target
    return False


def run_steps(
    session: Session,
    steps: Sequence[tuple[Step, bool]],
    inputs: Mapping[str, pa.Table],
) -> tuple[dict[str, pa.Table], list[tuple[str, pa.Table]]]:
    """All relations by name, and the rows written to each state table in order.

    Raises duckdb.Error when a step fails; the session's transaction is then void.
    """
    con = session.connection
    relations = dict(inputs)
    written: list[tuple[str, pa.Table]] = []
    registered = []
    session.begin()
    for name, table in inputs.items():
        con.register(name, table)
        registered.append(name)
    for step, visible in steps:
        match step:
            case Sql(None, text):
                con.execute(text)
            case Sql(target, text):
                relations[str(target)] = con.sql(text).to_arrow_table()
            case Call(target, _, function, needed):
                relations[target] = function({name: relations[name] for name in needed})
            case Upsert(table, source):
                session.upsert(table, relations[source], source)
                if relations[source].num_rows:
                    written.append((table, relations[source]))
        if visible and not isinstance(step, Upsert) and step.target is not None:
            con.register(step.target, relations[step.target])
            registered.append(step.target)
    for name in registered:
        if relations[name].num_rows > _SMALL:
            con.unregister(name)
    return relations, written


def output_of(relations: Mapping[str, pa.Table]) -> pa.Table:
    """What the program ends in."""
    return relations[OUT]
