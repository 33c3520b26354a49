"""Aggregates whose intermediate values ksqlDB cannot keep in the value format of their source.

Ours are stored differently; they are refused as in ksqlDB so that a script does not work here
alone.
"""

from __future__ import annotations

from millstream.catalog.formats import CAPABILITIES
from millstream.catalog.source import Format
from millstream.plan import wordings
from millstream.plan.nodes import Aggregate, Node, inputs

_NESTED = frozenset(
    {
        "ATTR",
        "AVG",
        "COLLECT_LIST",
        "COLLECT_SET",
        "CORRELATION",
        "COUNT_DISTINCT",
        "EARLIEST_BY_OFFSET",
        "HISTOGRAM",
        "LATEST_BY_OFFSET",
        "STDDEV_SAMP",
        "STDDEV_SAMPLE",
        "TOPK",
        "TOPKDISTINCT",
    }
)


def check_intermediates(node: Node, source: Format) -> None:
    """Refuse aggregates with nested intermediates over a source whose format has no such types."""
    if CAPABILITIES[source.name].nests:
        return
    if isinstance(node, Aggregate):
        nested = sorted({call.function for _, call in node.aggregates} & _NESTED)
        if nested:
            raise wordings.INTERMEDIATE_TYPE(
                detail=f"Functions: {', '.join(nested)}. Format: {source.name}."
            )
    for below in inputs(node):
        check_intermediates(below, source)
