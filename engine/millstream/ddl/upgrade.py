"""The state of a query whose plan is replaced: the new plan must find it again, and may add
columns."""

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
    """What a query keeps."""
    return {
        (sub.index, table.name): table
        for sub in topology.subtopologies
        for table in compile_subtopology(sub, functions, headers=False, cached=False).tables
    }


def check_state(sink: str | None, before: Tables, after: Tables) -> None:
    """StatementError where a new plan does not find the state of the running one again."""
    for place in before.keys() | after.keys():
        if not _continues(before.get(place), after.get(place)):
            raise wordings.UPGRADE_OF_STATE(
                sink=sink,
                detail=f"The query keeps its state in other steps now: {place[1]}.",
                hint="Drop it and create it again, or create another one.",
            )


def _continues(before: StateTable | None, after: StateTable | None) -> bool:
    """Whether a table holds what the new plan looks for; a column that is not there yet is only
    lacking, one of another type would be wrong."""
    if before is None or after is None or before.key != after.key:
        return False
    known = dict(before.value)
    return all(known.get(name, kind) == kind for name, kind in after.value)
