"""The plan, the topology and the programs of a query, for EXPLAIN. The query need not run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millstream.executor.executor import DuckDBExecutor
from millstream.operators.compile import compile_subtopology
from millstream.operators.program import ActiveProgram
from millstream.operators.show import show_program
from millstream.plan.nodes import Deliver, Write
from millstream.push.push_queries import PushQueries
from millstream.queries.registry import QueryRegistry
from millstream.queries.starting import caching, takes_by_arrival, topology_of
from millstream.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class Explained:
    """What EXPLAIN shows of a query. `programs`: one for each sub-topology."""

    statement: str
    node: Write | Deliver
    topology: Topology
    programs: tuple[ActiveProgram, ...]


def first_programs(
    registry: QueryRegistry, topology: Topology, properties: Mapping[str, str]
) -> tuple[ActiveProgram, ...]:
    """The programs that a query with these properties starts with."""
    cached = caching(properties)
    moments = takes_by_arrival(registry.log, topology, properties)
    return tuple(
        ActiveProgram(
            compile_subtopology(
                sub, registry.functions, headers=False, cached=cached, moments=moments
            ),
            cached=cached,
        )
        for sub in topology.subtopologies
    )


def active_programs(
    registry: QueryRegistry, topology: Topology, properties: Mapping[str, str]
) -> tuple[ActiveProgram, ...]:
    """The programs that a query's executors run in this process, or the ones that it starts with if
    it has no executors here."""
    executors = registry.runtime.executors(topology.query_id)
    active = tuple(
        executor.active for executor in executors if isinstance(executor, DuckDBExecutor)
    )
    return active or first_programs(registry, topology, properties)


def persistent(query_id: str, registry: QueryRegistry) -> Explained | None:
    """A persistent query; None if the catalog has none of this id."""
    record, planned = registry.catalog.queries.get(query_id), registry.plans.get(query_id)
    if record is None or planned is None:
        return None
    topology = topology_of(registry, query_id, planned)
    programs = active_programs(registry, topology, record.properties)
    return Explained(record.statement, planned.node, topology, programs)


def pushed(query_id: str, push_queries: PushQueries) -> Explained | None:
    """A push query of a client; None if there is none of this id, and for PRINT, which has no
    program."""
    for shared_push in tuple(push_queries.running.values()):
        for stream in shared_push.streams:
            if stream.query_id == query_id:
                programs = active_programs(
                    push_queries.registry, shared_push.topology, shared_push.properties
                )
                return Explained(stream.statement, shared_push.root, shared_push.topology, programs)
    return None


def shown_programs(programs: tuple[ActiveProgram, ...]) -> str:
    """The programs as text, each below a line that names its sub-topology and its variant."""
    return "\n\n".join(
        f"-- sub-topology {index} ({_chosen(each)})\n{show_program(each.program, exact=each.exact)}"
        for index, each in enumerate(programs)
    )


def _chosen(active: ActiveProgram) -> str:
    words = [
        "one change for each key and commit" if active.cached else "every change",
        "with headers" if active.headers else "",
        "exact, after a row that failed" if active.exact else "",
    ]
    return ", ".join(word for word in words if word)
