"""The plan, the topology and the programs of a query, for EXPLAIN. The query need not run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millstream.executor.executor import DuckDBExecutor
from millstream.executor.sql_script import PREAMBLE, show_program
from millstream.functions.function import Catalogue
from millstream.operators.compile import compile_subtopology
from millstream.operators.program import ActiveProgram
from millstream.plan.nodes import Deliver, Write
from millstream.push.push_queries import PushQueries
from millstream.queries.registry import QueryRegistry
from millstream.queries.starting import caching, takes_by_arrival, topology_of
from millstream.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class Explained:
    """What EXPLAIN shows of a query. `programs`: one for each sub-topology; `functions`: those that
    they may call."""

    statement: str
    node: Write | Deliver
    topology: Topology
    programs: tuple[ActiveProgram, ...]
    functions: Catalogue


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
    return Explained(record.statement, planned.node, topology, programs, registry.functions)


def pushed(query_id: str, push_queries: PushQueries) -> Explained | None:
    """A push query of a client; None if there is none of this id, and for PRINT, which has no
    program."""
    registry = push_queries.registry
    for shared_push in tuple(push_queries.running.values()):
        for stream in shared_push.streams:
            if stream.query_id == query_id:
                topology, root = shared_push.topology, shared_push.root
                programs = active_programs(registry, topology, shared_push.properties)
                return Explained(stream.statement, root, topology, programs, registry.functions)
    return None


def shown_programs(query: Explained) -> str:
    """The programs as one script, each below a line that names its sub-topology and its variant."""
    shown = (
        f"-- sub-topology {sub.index} ({_chosen(each)})\n"
        f"{show_program(each.program, sub, query.functions, exact=each.exact)}"
        for sub, each in zip(query.topology.subtopologies, query.programs, strict=True)
    )
    return "\n\n".join((PREAMBLE, *shown))


def _chosen(active: ActiveProgram) -> str:
    words = [
        "one change for each key and commit" if active.cached else "every change",
        "with headers" if active.headers else "",
        "exact, after a row that failed" if active.exact else "",
    ]
    return ", ".join(word for word in words if word)
