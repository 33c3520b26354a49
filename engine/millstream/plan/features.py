"""Features that a setting switches off for new statements (reference: statements §3, §4, §8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sqlglot import exp

from millstream.plan import wordings
from millstream.plan.places import placed, span_of
from millstream_parser import statements

SUPPRESS, LAMBDAS = "ksql.suppress.enabled", "ksql.lambdas.enabled"
HEADER_COLUMNS = "ksql.headers.columns.enabled"
_HEADERS = (statements.ColumnRole.HEADERS, statements.ColumnRole.HEADER)


def check_query_features(query: statements.Query, settings: Mapping[str, str], script: str) -> None:
    """Refuse EMIT FINAL and lambdas where they are switched off."""
    if query.emit == "FINAL" and _is_off(SUPPRESS, settings):
        raise wordings.SUPPRESS_DISABLED(setting=SUPPRESS, span=span_of(query.end))
    found = (tree.find(exp.Lambda) for tree in _trees(query))
    body = next((one for one in found if one is not None), None)
    if body is not None and _is_off(LAMBDAS, settings):
        raise wordings.LAMBDAS_DISABLED(setting=LAMBDAS, span=span_of(body, script))


def check_header_columns(
    elements: Iterable[statements.Element], settings: Mapping[str, str]
) -> None:
    """Refuse header columns where they are switched off."""
    if not _is_off(HEADER_COLUMNS, settings):
        return
    for element in elements:
        if element.role in _HEADERS:
            with placed(element.span):
                raise wordings.HEADER_COLUMNS_DISABLED(
                    hint=f"SET '{HEADER_COLUMNS}' = 'true' allows it."
                )


def _is_off(name: str, settings: Mapping[str, str]) -> bool:
    return settings.get(name, "true").strip().lower() == "false"


def _trees(query: statements.Query) -> Iterator[exp.Expression]:
    for item in query.items:
        yield item.expression
    for join in query.joins:
        yield join.condition
    for tree in (query.where, query.having):
        if tree is not None:
            yield tree
    yield from query.group_by
    yield from query.partition_by
