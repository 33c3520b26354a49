"""Checks the state of a query whose plan is replaced: the new plan must use the same state tables,
and may add columns."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.ddl import wordings
from millstream.functions.function import Catalogue
from millstream.operators.compile import compile_subtopology
from millstream.operators.program import StateTable
from millstream.topology.topology import Topology

Tables = Mapping[tuple[int, str], StateTable]
"""State tables by sub-topology and name."""


def state_tables(topology: Topology, functions: Catalogue) -> Tables:
    """The state tables of a query."""
    return {
        (sub.index, table.name): table
        for sub in topology.subtopologies
        for table in compile_subtopology(sub, functions, headers=False, cached=False).tables
    }


def check_state(sink: str | None, before: Tables, after: Tables) -> None:
    """Raise StatementError if the new plan cannot use the state tables of the running one."""
    for table in before.keys() | after.keys():
        if not _continues(before.get(table), after.get(table)):
            raise wordings.UPGRADE_OF_STATE(
                sink=sink,
                detail=f"The new plan does not use the same state table {table[1]}.",
                hint="Drop it and create it again, or create another one.",
            )


def _continues(before: StateTable | None, after: StateTable | None) -> bool:
    """Whether the new plan can use a state table. A table or a column may be missing, since it can
    be added; a column of another type may not."""
    if before is None:
        return True
    if after is None or before.key != after.key:
        return False
    known = dict(before.value)
    return all(known.get(name, kind) == kind for name, kind in after.value)
