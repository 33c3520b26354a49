"""Stores of processors as tables of pull queries: `SELECT * FROM stream.store`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from millstream.catalog.formats import NO_COLUMNS
from millstream.catalog.source import Source
from millstream.functions.function import Catalogue, StoreColumns
from millstream.model.batch import PART, ROWTIME
from millstream.model.nearest import did_you_mean
from millstream.model.physical import physical_names
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.operators.compile import compile_subtopology
from millstream.operators.process import STREAM_TIME
from millstream.operators.program import ProcessorCall, StoreTable
from millstream.operators.sql import identifier
from millstream.operators.view import View
from millstream.plan.nodes import Node, Process, inputs
from millstream.queries.registry import QueryRegistry
from millstream.query import wordings
from millstream.topology.topology import SubTopology

_NEVER = "9223372036854775807"
_ENDS, _KEPT_FROM = identifier("$ends"), identifier("$kept_from")


def find_source(registry: QueryRegistry, name: str) -> Source | None:
    """The stream, the table or the store of this name, if there is one. That of a store is the name
    of the stream that its query writes, or the id of the query, a dot, and its own name in any
    case. Raises StatementError if the query has other stores only."""
    found = registry.catalog.find(name)
    if found is not None:
        return found
    query = registry.catalog.query_of_store(name)
    planned = None if query is None else registry.plans.get(query.id)
    if planned is None or query is None:
        return None
    owner, _, store = name.rpartition(".")
    stores = {each.name.upper(): each for each in _stores(planned.node)}
    if store.upper() not in stores:
        raise wordings.STORE_MISSING(
            owner=owner, store=store, hint=did_you_mean(store.upper(), stores, "It has none.")
        )
    written = registry.catalog.find(query.sink or "")
    topic = "" if written is None else written.topic
    return _as_table(name, query.id, topic, stores[store.upper()])


def source_named(registry: QueryRegistry, name: str) -> Source:
    """As `find_source`; raises StatementError if there is none."""
    found = find_source(registry, name)
    return registry.catalog.source(name) if found is None else found


def store_view(
    source: Source, sub: SubTopology, catalogue: Catalogue, table: Callable[[str], str]
) -> View | None:
    """The rows of a store that are still there; None if another sub-topology has it. `table` gives
    the full SQL name of a state table."""
    for step in compile_subtopology(sub, catalogue, headers=False, cached=False).steps:
        if isinstance(step, ProcessorCall):
            for columns, stored in zip(step.node.processor.stores, step.stores, strict=True):
                if columns.name == source.store:
                    return _view(columns, stored, table(step.times), table(stored.table))
    return None


def _stores(node: Node) -> Iterator[StoreColumns]:
    if isinstance(node, Process):
        yield from node.processor.stores
    for below in inputs(node):
        yield from _stores(below)


def _as_table(name: str, query_id: str, topic: str, store: StoreColumns) -> Source:
    columns = (
        Column(column.name, column.type, Role.KEY if column.key else Role.VALUE)
        for column in store.shown
    )
    return Source(
        name=name,
        kind=SourceKind.TABLE,
        schema=Schema(tuple(columns)),
        topic=topic,
        key_format=NO_COLUMNS,
        value_format=NO_COLUMNS,
        read_only=True,
        store=store.name,
        query_id=query_id,
    )


def _view(columns: StoreColumns, stored: StoreTable, times: str, rows: str) -> View:
    """What has expired is in the table until the processor removes it, which must not be seen."""
    named = physical_names(column.name for column in columns.shown)
    texts = {
        identifier(name): column.text for name, column in zip(named, columns.shown, strict=True)
    }
    life, part = columns.life, identifier(PART)
    at = "NULL::BIGINT" if life is None else life.time
    texts |= {part: part, identifier(ROWTIME): at}
    if life is None:
        return View(texts, rows, ())
    kept_from = (
        f"(SELECT max({STREAM_TIME}) FROM {times} t WHERE t.{part} = s.{part}) - {life.length_ms}"
    )
    listed = [part, *stored.key_columns, "value", f"{kept_from} AS {_KEPT_FROM}"]
    ends = life.time if life.until is None else f"coalesce({life.until}, {_NEVER})"
    listed.append(f"{ends} AS {_ENDS}")
    source = f"(SELECT {', '.join(listed)} FROM {rows} s)"
    return View(texts, source, (f"{_ENDS} >= {_KEPT_FROM}",))
