"""The state of a query whose plan is replaced: it must be found again, and may get columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millstream.catalog.catalog import QueryRecord
from millstream.operators.compile import compile_subtopology
from millstream.operators.program import StateTable
from millstream.plan.build import Planned
from millstream.service import wordings
from millstream.service.engine import Engine
from millstream.service.queries import register_plan, topology_of

Tables = Mapping[tuple[int, str], StateTable]
"""State tables by sub-topology and name."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The query and the state tables it will have."""

    query_id: str
    tables: Tables


def prepare(
    engine: Engine, record: QueryRecord, running: Planned | None, planned: Planned
) -> Upgrade:
    """Compile the new plan; StatementError where it does not find the running one's state again.

    `running` is None for a query that could not be started: its state is not known then.
    """
    after = _tables(engine, record.id, planned)
    before = after if running is None else _tables(engine, record.id, running)
    for place in before.keys() | after.keys():
        if not _continues(before.get(place), after.get(place)):
            raise wordings.UPGRADE_OF_STATE(
                sink=record.sink,
                detail=f"The query keeps its state in other steps now: {place[1]}.",
                hint="Drop it and create it again, or create another one.",
            )
    return Upgrade(record.id, after)


def adapt(engine: Engine, query_id: str) -> None:
    """Let the state of a query be what its plan needs, after another process has replaced it or
    this one was killed while it did. The query must not be running."""
    record = engine.catalog.queries[query_id]
    adapt_state(engine, prepare(engine, record, None, engine.plans[query_id]))


def adapt_state(engine: Engine, upgrade: Upgrade) -> None:
    """Give the state tables their new columns, NULL in the rows that are there. The query must
    not be running."""
    for (subtopology, _), table in upgrade.tables.items():
        engine.store.widen(upgrade.query_id, subtopology, table)


def _tables(engine: Engine, query_id: str, planned: Planned) -> Tables:
    topology = topology_of(engine, query_id, planned)
    register_plan(engine, topology)
    return {
        (sub.index, table.name): table
        for sub in topology.subtopologies
        for table in compile_subtopology(sub, engine.functions, headers=False, cached=False).tables
    }


def _continues(before: StateTable | None, after: StateTable | None) -> bool:
    """Whether a table holds what the new plan looks for; a column that is not there yet is only
    lacking, one of another type would be wrong."""
    if before is None or after is None or before.key != after.key:
        return False
    known = dict(before.value)
    return all(known.get(name, kind) == kind for name, kind in after.value)
