"""Compiles a sub-topology into its DuckDB program."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import assert_never

import numpy as np
import pyarrow as pa

from millstream.functions.function import Catalogue
from millstream.model.batch import HEADERS, MOMENT
from millstream.operators.aggregate import compile_aggregate
from millstream.operators.deletions import pairs_on_demand
from millstream.operators.filter import compile_filter
from millstream.operators.flatten import compile_flatten
from millstream.operators.foreign_key import compile_answer, compile_settle, compile_subscribe
from millstream.operators.join import compile_stream_table_join
from millstream.operators.merge import compile_merge
from millstream.operators.process import compile_process
from millstream.operators.program import Call, ProcessorCall, Program, Repeat, Sql, Step
from millstream.operators.project import compile_project
from millstream.operators.read import compile_read
from millstream.operators.relation import (
    SelectFragment,
    Setting,
    meta_names,
    names,
    quoted,
    select_text,
)
from millstream.operators.repartition import compile_repartition
from millstream.operators.sql import identifier, unquoted
from millstream.operators.stream_join import compile_stream_stream_join
from millstream.operators.table_join import compile_table_table_join
from millstream.plan.nodes import (
    Aggregate,
    Deliver,
    Filter,
    Flatten,
    ForeignKeyJoin,
    Merge,
    Node,
    Process,
    Project,
    Read,
    Repartition,
    StreamStreamJoin,
    StreamTableJoin,
    SubscriptionResolve,
    SubscriptionSend,
    SubscriptionStoreJoin,
    TableTableJoin,
    Write,
)
from millstream.topology.topology import SubTopology

OUT = "out"
"""The output relation of every program."""
_ENTERS = "1::TINYINT"
_IDENTIFIER = re.compile(r'"(?:[^"]|"")+"')


def compile_subtopology(
    sub: SubTopology,
    catalogue: Catalogue,
    *,
    headers: bool,
    cached: bool,
    moments: bool = False,
    closing: bool = False,
) -> Program:
    """The program of a sub-topology, a pure function of its arguments.

    `headers`: relations carry the headers of the records. `cached`: aggregates emit one change for
    each key and run instead of one for each row. `moments`: output for the log carries m (see
    `executor/order.py`) of the record that caused it; where `$seq` does not identify that record,
    relations carry `$m`. `closing`: what waits for stream time is released, see `closing.py`.
    """
    carried = (HEADERS,) if headers else ()
    setting = Setting(catalogue, carried, cached, exact=False, closing=closing)
    fast = _compile(sub, setting)
    if moments and not fast.traced and not isinstance(sub.root, Deliver):
        setting = replace(setting, carried=(*carried, MOMENT))
        fast = _compile(sub, setting)
    guarded = replace(setting, exact=True)
    exact = _compile(sub, guarded)
    guarded_steps = _steps(exact, guarded)
    # A processor must not get the rows of a run twice, so nothing may fail before or behind it.
    once = any(isinstance(step, ProcessorCall) for step in guarded_steps)
    return Program(
        steps=guarded_steps if once else _steps(fast, setting),
        exact=guarded_steps,
        tables=fast.tables,
        inputs=tuple(f"in_{index}" for index in range(len(sub.inputs))),
        late=fast.late,
        problems=exact.problems,
        traced=fast.traced,
        carried=setting.carried,
    )


def _steps(part: SelectFragment, setting: Setting) -> tuple[Step, ...]:
    return (*part.steps, _out(part, setting), *part.writes)


def _out(part: SelectFragment, setting: Setting) -> Sql | Call:
    """The last relation. If it only selects columns of the one before, no statement is needed,
    which saves a good part of the cost of a single record."""
    statement = Sql(OUT, select_text(part, setting), part.nodes, part.nested)
    made = {
        identifier(step.target): step.target
        for step in part.steps
        if isinstance(step, Sql) and step.target is not None
    }
    meta = dict(part.meta)
    own = quoted(names(part.schema))
    further = quoted(meta_names(setting))
    texts = (*(part.columns or own), *(meta.get(name, name) for name in further))
    plain = all(text == _ENTERS or _IDENTIFIER.fullmatch(text) for text in texts)
    if part.source not in made or part.where or not plain:
        return statement
    source = made[part.source]
    chosen = tuple(None if text == _ENTERS else unquoted(text) for text in texts)
    target = (*names(part.schema), *meta_names(setting))
    label = f"columns {', '.join(texts)} of"
    picked = _picked(source, chosen, target)
    return Call(OUT, label, picked, (source,), statement.text, nodes=part.nodes)


def _picked(
    source: str, chosen: tuple[str | None, ...], target: tuple[str, ...]
) -> Callable[[Mapping[str, pa.Table]], pa.Table]:
    def run(relations: Mapping[str, pa.Table]) -> pa.Table:
        rows = relations[source]
        one = pa.chunked_array([pa.array(np.ones(rows.num_rows, np.int8))])
        columns = [one if name is None else rows[name] for name in chosen]
        return pa.Table.from_arrays(columns, names=list(target))

    return run


def _compile(sub: SubTopology, setting: Setting) -> SelectFragment:
    """The relation below the root; it keeps only `$seq` of its inputs."""
    return replace(_root(sub, setting), origin=None)


def _root(sub: SubTopology, setting: Setting) -> SelectFragment:
    leaves, labels = count(), count()
    match sub.root:
        case Repartition():
            given = _for(sub.root, _node(sub.root.input, setting, leaves, labels, old=True))
            return _named(compile_repartition(sub.root, given, "key", setting), sub.root)
        case Write() | Deliver():
            # A cache drops a row that was inserted and deleted between two commits, so it must see
            # which rows existed before.
            old = setting.cached and pairs_on_demand(sub.root.input)
            return _for(sub.root, _node(sub.root.input, setting, leaves, labels, old=old))
    raise TypeError(f"a sub-topology cannot end in {type(sub.root).__name__}")


def _node(
    node: Node, setting: Setting, leaves: Iterator[int], labels: Iterator[int], *, old: bool
) -> SelectFragment:
    """`old`: whether the reader needs the row that a change replaces (-1)."""
    return _named(_operator(node, setting, leaves, labels, old=old), node)


def _for(node: Node, given: SelectFragment) -> SelectFragment:
    """An input of the node that is compiled next."""
    return replace(given, nodes=(*given.nodes, node))


def _named(part: SelectFragment, node: Node) -> SelectFragment:
    """What a node is compiled to. Operators name the nodes of the steps that run a SELECT which
    was under construction; all their other steps are of the node alone."""

    def named(step: Step) -> Step:
        if step.nodes:
            return step
        if isinstance(step, Repeat):
            inner = tuple(replace(each, nodes=each.nodes or (node,)) for each in step.steps)
            return replace(step, steps=inner, nodes=(node,))
        return replace(step, nodes=(node,))

    return replace(
        part,
        steps=tuple(map(named, part.steps)),
        writes=tuple(map(named, part.writes)),
        nodes=part.nodes or (node,),
    )


def _operator(
    node: Node, setting: Setting, leaves: Iterator[int], labels: Iterator[int], *, old: bool
) -> SelectFragment:
    def below(child: Node, *, old: bool) -> SelectFragment:
        return _for(node, _node(child, setting, leaves, labels, old=old))

    match node:
        case Read():
            return compile_read(
                node, f"in_{next(leaves)}", f"read_{next(labels)}", setting, old=old
            )
        case Repartition():
            return SelectFragment(node.schema, identifier(f"in_{next(leaves)}"))
        case Filter():
            given = below(node.input, old=True)
            # A filter gets no number, because adding one must not rename the state of the steps
            # above.
            label = "filter_of_" + given.source.strip('"')
            return compile_filter(node, given, label, setting)
        case Project():
            given = below(node.input, old=old)
            return compile_project(node, given, f"project_{next(labels)}", setting)
        case Flatten():
            given = below(node.input, old=old)
            return compile_flatten(node, given, f"flatten_{next(labels)}", setting)
        case Process():
            given = below(node.input, old=old)
            return compile_process(node, given, f"process_{next(labels)}", setting)
        case Aggregate():
            given = below(node.input, old=True)
            return compile_aggregate(node, given, f"aggregate_{next(labels)}", setting, old=old)
        case Merge():
            left, right = below(node.left, old=old), below(node.right, old=old)
            return compile_merge(node, left, right, setting)
        case StreamTableJoin():
            left = below(node.left, old=True)
            right = below(node.right, old=False)
            return compile_stream_table_join(node, left, right, f"join_{next(labels)}", setting)
        case StreamStreamJoin():
            left = below(node.left, old=True)
            right = below(node.right, old=True)
            return compile_stream_stream_join(node, left, right, f"join_{next(labels)}", setting)
        case TableTableJoin():
            left = below(node.left, old=False)
            right = below(node.right, old=False)
            label = f"join_{next(labels)}"
            return compile_table_table_join(node, left, right, label, setting, old=old)
        case SubscriptionSend():
            given = below(node.input, old=False)
            return compile_subscribe(node, given, f"subscribe_{next(labels)}", setting)
        case SubscriptionStoreJoin():
            left, right = below(node.left, old=True), below(node.right, old=False)
            return compile_answer(node, left, right, f"answer_{next(labels)}", setting)
        case SubscriptionResolve():
            given = below(node.input, old=True)
            return compile_settle(node, given, f"settle_{next(labels)}", setting, old=old)
        case ForeignKeyJoin() | Write() | Deliver():
            raise TypeError(f"{type(node).__name__} is not inside of a sub-topology")
    assert_never(node)
