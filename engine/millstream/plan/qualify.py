"""A query in qualified form: every column with its source, every SELECT item with its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from millstream.catalog.catalog import Catalog
from millstream.catalog.rules import RESERVED
from millstream.catalog.source import Source
from millstream_parser.statements import AliasedSource, Query, SelectItem


def qualified(query: Query, catalog: Catalog) -> Query:
    """The same query as messages show it. Names that cannot be resolved stay unchanged."""
    given = (query.source, *(join.source for join in query.joins))
    owners = {item.alias or item.name: catalog.source(item.name) for item in given}

    def full(tree: exp.Expression) -> exp.Expression:
        return tree.transform(_with_owner, owners)

    return replace(
        query,
        items=tuple(
            SelectItem(full(item.expression), item.alias or _own_name(item.expression))
            for item in query.items
        ),
        source=_named(query.source),
        joins=tuple(
            replace(join, source=_named(join.source), condition=full(join.condition))
            for join in query.joins
        ),
        where=None if query.where is None else full(query.where),
        group_by=tuple(map(full, query.group_by)),
        partition_by=tuple(map(full, query.partition_by)),
        having=None if query.having is None else full(query.having),
        emit=query.emit or "CHANGES",
        union=tuple(qualified(branch, catalog) for branch in query.union),
    )


def _named(source: AliasedSource) -> AliasedSource:
    return replace(source, alias=source.alias or source.name)


def _own_name(tree: exp.Expression) -> str | None:
    return (
        tree.name if isinstance(tree, exp.Column) and not isinstance(tree.this, exp.Star) else None
    )


def _with_owner(node: exp.Expression, owners: Mapping[str, Source]) -> exp.Expression:
    if not isinstance(node, exp.Column) or node.table or isinstance(node.this, exp.Star):
        return node
    for alias, source in owners.items():
        if source.schema.find(node.name) is not None or node.name in RESERVED:
            owner = exp.Identifier(this=alias, quoted=False)
            return exp.Column(this=node.this.copy(), table=owner)
    return node
