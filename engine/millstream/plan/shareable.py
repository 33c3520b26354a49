"""Finds push queries whose one run can serve many clients: those that read only new rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Source
from millstream.functions.function import Catalogue
from millstream.model.settings import effective
from millstream.plan.sources import functions_in
from millstream_parser.statements import Query

ENABLED = "ksql.query.push.v2.enabled"
_OF_LOG = ("ROWPARTITION", "ROWOFFSET")


def shared_source(
    query: Query, catalog: Catalog, functions: Catalogue, properties: Mapping[str, str]
) -> Source | None:
    """The source of the query, if it can share a run: one source that a single persistent query
    writes, read from the latest row on, each row processed independently of its partition."""
    source = catalog.find(query.source.name)
    beyond = query.joins or query.group_by or query.partition_by or query.having or query.union
    trees = [item.expression for item in query.items]
    if (
        source is None
        or len(catalog.writers(source.name)) != 1
        or beyond
        or _places((*trees, *([] if query.where is None else [query.where])))
        or query.window is not None
        or query.emit != "CHANGES"
        or effective(properties, ENABLED) != "true"
        or effective(properties, "auto.offset.reset") != "latest"
    ):
        return None
    folding = any(functions_in(tree, {**functions.aggregate, **functions.table}) for tree in trees)
    return None if folding else source


def _places(trees: Iterable[exp.Expression]) -> bool:
    """Whether one of the expressions reads a record's partition or offset."""
    columns = (column for tree in trees for column in tree.find_all(exp.Column))
    return any(column.name in _OF_LOG for column in columns)


def of_keyed_rows(query: Query, source: Source) -> Query:
    """The query without rows that lack a key."""
    where = query.where
    alias = query.source.alias or source.name
    for column in source.schema.key:
        named = exp.Column(
            this=exp.Identifier(this=column.name, quoted=True),
            table=exp.Identifier(this=alias, quoted=True),
        )
        present = exp.Not(this=exp.Is(this=named, expression=exp.Null()))
        where = present if where is None else exp.And(this=where, expression=present)
    return replace(query, where=where)
