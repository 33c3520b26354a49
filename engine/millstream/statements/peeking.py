"""PEEK: the last rows that have passed a node of a topology in this process."""

from __future__ import annotations

import json

import pyarrow as pa

from millstream.model.nearest import did_you_mean
from millstream.processors.composed import Composition
from millstream.queries.registry import QueryRegistry
from millstream.query.results import Rows
from millstream.statements import wordings
from millstream_parser import parse
from millstream_parser import statements as s

ROWS = 10
"""How many rows are shown without LIMIT."""
_SCHEMA = pa.schema(
    [
        ("ROWTIME", pa.int64()),
        ("PARTITION", pa.int32()),
        ("KEY", pa.string()),
        ("VALUE", pa.string()),
    ]
)


def peek(statement: s.Peek, registry: QueryRegistry) -> Rows:
    """Execute PEEK; raises StatementError for a query that is not of a topology, and for a node
    that it does not have."""
    composition = _composition(statement.query_id, registry)
    names = [node.name for node in composition.part.nodes]
    node = _named(statement.node, names)
    if node is None:
        raise wordings.PEEKED_NODE_MISSING(
            query_id=statement.query_id,
            node=statement.node,
            hint=did_you_mean(statement.node, names) or f"It has {', '.join(names)}.",
        )
    rows = composition.peek(node, ROWS if statement.limit is None else statement.limit)
    found = [
        {
            "ROWTIME": row.timestamp_ms,
            "PARTITION": row.partition,
            "KEY": _text(row.key),
            "VALUE": _text(dict(row.value)),
        }
        for row in rows
    ]
    return Rows(pa.Table.from_pylist(found, schema=_SCHEMA))


def _composition(query_id: str, registry: QueryRegistry) -> Composition:
    queries = registry.catalog.queries
    if query_id not in queries:
        raise wordings.PEEKED_QUERY_MISSING(query_id=query_id, hint=did_you_mean(query_id, queries))
    found = _of_topology(query_id, registry)
    if found is None:
        others = [name for name in queries if _of_topology(name, registry) is not None]
        raise wordings.PEEKED_WITHOUT_NODES(
            query_id=query_id,
            hint=f"These have: {', '.join(others)}."
            if others
            else "PEEK is for the queries of topologies, which Database.deploy runs.",
        )
    return found


def _of_topology(query_id: str, registry: QueryRegistry) -> Composition | None:
    """The nodes of a query whose processor is a topology."""
    (made,) = parse(registry.catalog.queries[query_id].statement)
    name = made.query.source.processor if isinstance(made, s.CreateAs | s.InsertInto) else None
    function = registry.functions.processor.get(name or "")
    supplier = None if function is None else function.supplier
    return supplier if isinstance(supplier, Composition) else None


def _named(node: str, names: list[str]) -> str | None:
    """The node of exactly this name, or the only one of it whatever its case."""
    if node in names:
        return node
    alike = [name for name in names if name.upper() == node.upper()]
    return alike[0] if len(alike) == 1 else None


def _text(value: object) -> str | None:
    return None if value is None else json.dumps(value, default=str, ensure_ascii=False)
