"""Runs the steps of a program on a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import pyarrow as pa

from millstream.executor.processors import Processors
from millstream.operators.compile import OUT
from millstream.operators.program import Call, ProcessorCall, Program, Repeat, Sql, Step, Upsert
from millstream.state.store import Session


@dataclass(frozen=True, slots=True)
class Ready:
    """A program and which of its relations later SQL mentions."""

    program: Program
    fast: tuple[tuple[Step, bool], ...]
    exact: tuple[tuple[Step, bool], ...]


def ready(program: Program) -> Ready:
    """Analyse a program once."""
    return Ready(program, _mentioned(program.steps), _mentioned(program.exact))


def _mentioned(steps: Sequence[Step]) -> tuple[tuple[Step, bool], ...]:
    """Each step, and whether its relations must be visible to SQL."""
    return tuple(
        (
            step,
            any(_reads(other, name) for other in steps[index + 1 :] for name in _targets(step)),
        )
        for index, step in enumerate(steps)
    )


def _targets(step: Step) -> tuple[str, ...]:
    """The relations that a step makes."""
    match step:
        case Sql(target):
            return () if target is None else (target,)
        case Call(target):
            return (target,)
        case ProcessorCall():
            stores = (store.changes for store in step.stores)
            return (step.target, step.times_new, step.skipped, *stores)
        case Upsert() | Repeat():
            return ()
    assert_never(step)


def _reads(step: Step, target: str) -> bool:
    match step:
        case Sql(_, text):
            return f'"{target}"' in text
        case Upsert(source=source):
            return source == target
        case Repeat(_, steps):
            return any(_reads(inner, target) for inner in steps)
    return False


@dataclass(slots=True)
class _Running:
    """One run: relations by name, and the rows written. `size`: the most rows of an input."""

    session: Session
    processors: Processors
    relations: dict[str, pa.Table]
    written: list[tuple[str, pa.Table]]
    size: int

    def show(self, name: str) -> None:
        """Make a relation visible to SQL."""
        self.session.views.show(name, self.relations[name])

    def step(self, step: Step, *, visible: bool) -> None:
        """Run one step."""
        match step:
            case Sql(None, text):
                self.session.views.execute(text, size=self.size)
            case Sql(target, text):
                self.relations[str(target)] = self.session.views.query(text, size=self.size)
            case Call(target, _, function, needed):
                given = {name: self.relations[name] for name in needed}
                with self.processors.calling():
                    self.relations[target] = function(given)
            case ProcessorCall():
                with self.processors.calling():
                    self.relations |= self.processors.run(step, self.relations[step.source])
            case Repeat(until_empty, steps):
                while self.relations[until_empty].num_rows:
                    for inner in steps:
                        self.step(inner, visible=True)
            case Upsert(table, source, fresh):
                rows = self.relations[source]
                self.session.upsert(table, rows, source, fresh=fresh)
                if rows.num_rows:
                    self.written.append((table, rows))
        if visible:
            for name in _targets(step):
                self.show(name)


def run_steps(
    session: Session,
    processors: Processors,
    steps: Sequence[tuple[Step, bool]],
    inputs: Mapping[str, pa.Table],
) -> tuple[dict[str, pa.Table], list[tuple[str, pa.Table]]]:
    """All relations by name, and the rows written to each state table in order.

    Raises duckdb.Error when a step fails; the session's transaction is then void. Raises
    ProcessingError when a processor does.
    """
    size = max((table.num_rows for table in inputs.values()), default=0)
    running = _Running(session, processors, dict(inputs), [], size)
    session.begin()
    for name in inputs:
        running.show(name)
    for step, visible in steps:
        running.step(step, visible=visible)
    session.views.release()
    return running.relations, running.written


def output_of(relations: Mapping[str, pa.Table]) -> pa.Table:
    """The relation at the root of the program."""
    return relations[OUT]
