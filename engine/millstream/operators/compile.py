"""From a sub-topology to its DuckDB program."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from millstream.functions.function import Catalogue
from millstream.operators.aggregate import compile_aggregate
from millstream.operators.filter import compile_filter
from millstream.operators.flatten import compile_flatten
from millstream.operators.join import compile_stream_table_join
from millstream.operators.program import Program, Sql, Step
from millstream.operators.project import compile_project
from millstream.operators.read import compile_read
from millstream.operators.relation import Part, Setting, select_text
from millstream.operators.repartition import compile_repartition
from millstream.operators.sql import identifier
from millstream.plan.nodes import (
    Aggregate,
    Deliver,
    Filter,
    Flatten,
    Node,
    Project,
    Read,
    Repartition,
    StreamTableJoin,
    Write,
)
from millstream.topology.topology import SubTopology

OUT = "out"
"""The relation every program ends in."""


def compile_subtopology(
    sub: SubTopology, catalogue: Catalogue, *, headers: bool, cached: bool
) -> Program:
    """The program of a sub-topology, a pure function of its arguments.

    `headers`: relations carry the headers of the records. `cached`: aggregates give one change
    for each key and run instead of one for each row.
    """
    fast = _compile(sub, Setting(catalogue, headers, cached, exact=False))
    exact = _compile(sub, Setting(catalogue, headers, cached, exact=True))
    return Program(
        steps=_steps(fast, Setting(catalogue, headers, cached, exact=False)),
        exact=_steps(exact, Setting(catalogue, headers, cached, exact=True)),
        tables=fast.tables,
        inputs=tuple(f"in_{index}" for index in range(len(sub.inputs))),
        late=fast.late,
        problems=exact.problems,
        upkeep=fast.upkeep,
    )


def _steps(part: Part, setting: Setting) -> tuple[Step, ...]:
    return (*part.steps, Sql(OUT, select_text(part, setting)), *part.writes)


def _compile(sub: SubTopology, setting: Setting) -> Part:
    leaves, labels = count(), count()
    match sub.root:
        case Repartition():
            given = _node(sub.root.input, setting, leaves, labels, old=True)
            return compile_repartition(sub.root, given, "key", setting)
        case Write() | Deliver():
            return _node(sub.root.input, setting, leaves, labels, old=False)
    raise TypeError(f"a sub-topology cannot end in {type(sub.root).__name__}")


def _node(
    node: Node, setting: Setting, leaves: Iterator[int], labels: Iterator[int], *, old: bool
) -> Part:
    """`old`: whether the reader needs the row that a change replaces (-1)."""

    def below(child: Node, *, old: bool) -> Part:
        return _node(child, setting, leaves, labels, old=old)

    match node:
        case Read():
            return compile_read(
                node, f"in_{next(leaves)}", f"read_{next(labels)}", setting, old=old
            )
        case Repartition():
            return Part(node.schema, identifier(f"in_{next(leaves)}"))
        case Filter():
            given = below(node.input, old=True)
            return compile_filter(node, given, f"filter_{next(labels)}", setting)
        case Project():
            given = below(node.input, old=old)
            return compile_project(node, given, f"project_{next(labels)}", setting)
        case Flatten():
            given = below(node.input, old=old)
            return compile_flatten(node, given, f"flatten_{next(labels)}", setting)
        case Aggregate():
            given = below(node.input, old=True)
            return compile_aggregate(node, given, f"aggregate_{next(labels)}", setting, old=old)
        case StreamTableJoin():
            left = below(node.left, old=True)
            right = below(node.right, old=False)
            return compile_stream_table_join(node, left, right, f"join_{next(labels)}", setting)
    raise TypeError(f"{type(node).__name__} is not an operator")
