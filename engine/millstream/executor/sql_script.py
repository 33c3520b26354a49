"""A program as a script for the `duckdb` shell, for EXPLAIN and golden files.

It creates the inputs and the state tables, then has a statement for each step, below comments with
the logical nodes whose work the step does. Every statement that runs in the executor is shown token
by token; a step in Python is shown as the SELECT of the same rows, or of the same columns where SQL
has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from millstream.functions.function import Catalogue
from millstream.model.batch import DIFF, HEADERS, MOMENT, PART, ROWTIME, SEQ
from millstream.model.physical import duckdb_type, physical_names
from millstream.operators.layout import laid_out
from millstream.operators.program import (
    Call,
    Nested,
    Nodes,
    ProcessorCall,
    Program,
    Repeat,
    Sql,
    StateTable,
    Step,
    StoreTable,
    Upsert,
)
from millstream.operators.registration import node_expressions
from millstream.operators.scalar import PythonFunction
from millstream.operators.udfs import needed_functions
from millstream.plan.show import describe
from millstream.state.store import KEEP_FAILURES
from millstream.state.tables import DELETED, create_text, quoted, upsert_texts
from millstream.topology.topology import Input, SourceInput, SubTopology

PREAMBLE = f"""\
-- This runs in an empty DuckDB. To see rows, fill the inputs with those of one batch, and run the
-- statements below them again: the state tables keep what earlier batches wrote.
-- Of each row of an input, $part is the partition of the task, $seq the place in the order of
-- processing, $rowtime the event time in ms, and $diff 1 (a row), -1 (removed) or 0 (no value).
{KEEP_FAILURES};"""
"""What is above the programs of a query."""
_CARRIED: Mapping[str, str] = {HEADERS: 'STRUCT("key" VARCHAR, "value" BLOB)[]', MOMENT: "BIGINT"}


def show_program(
    program: Program, sub: SubTopology, catalogue: Catalogue, *, exact: bool = False
) -> str:
    """The program of a sub-topology; `exact` shows the guarded steps."""
    chosen = program.exact if exact else program.steps
    schema = quoted(f"sub_topology_{sub.index}")
    tables = {table.name: table for table in program.tables}
    writers = {step.table: step.nodes for step in chosen if isinstance(step, Upsert)}
    steps = "\n\n".join(_step_text(step, tables) for step in chosen)
    parts = (
        f"CREATE SCHEMA IF NOT EXISTS {schema};\nUSE {schema};",
        *_stubs(steps, sub, catalogue),
        *(
            _input_text(name, given, program.carried)
            for name, given in zip(program.inputs, sub.inputs, strict=True)
        ),
        *(_table_text(schema, each, writers[each.name]) for each in program.tables),
        steps,
    )
    return "\n\n".join(parts)


def _stubs(steps: str, sub: SubTopology, catalogue: Catalogue) -> Iterator[str]:
    """Macros for the Python functions that are called."""
    known = needed_functions(node_expressions(sub.root), catalogue)
    called = {each.name: _stub(each) for each in known if f"{each.name}(" in steps}
    if called:
        yield "\n".join(
            (
                "-- Python functions, which are not available here: these macros return NULL.",
                *(called[name] for name in sorted(called)),
            )
        )


def _stub(function: PythonFunction) -> str:
    parameters = ", ".join(f"a{place}" for place in range(len(function.parameters)))
    name = quoted(function.name)
    return f"CREATE OR REPLACE MACRO {name}({parameters}) AS CAST(NULL AS {function.result});"


def _input_text(name: str, given: Input, carried: Sequence[str]) -> str:
    if isinstance(given, SourceInput):
        node, schema = describe(given.read), given.read.schema
    else:
        node, schema = describe(given.repartition), given.schema
    types = {
        physical: duckdb_type(column.type)
        for column, physical in zip(schema.columns, physical_names(schema.names), strict=True)
    }
    types |= {PART: "INTEGER", SEQ: "BIGINT", ROWTIME: "BIGINT", DIFF: "TINYINT"}
    types |= {column: _CARRIED[column] for column in carried}
    listed = ", ".join(f"{quoted(column)} {kind}" for column, kind in types.items())
    text = f"CREATE TABLE IF NOT EXISTS {quoted(name)} ({listed})"
    return f"{_comment(f'Input: {node}')}\n{laid_out(text)};"


def _table_text(schema: str, table: StateTable, nodes: Nodes) -> str:
    above = "\n".join(_comment(f"State: {describe(node)}") for node in nodes)
    return f"{above}\n{laid_out(create_text(schema, table))};"


def _step_text(step: Step, tables: Mapping[str, StateTable]) -> str:
    above = "".join(f"{line}\n" for line in _node_lines(step.nodes))
    match step:
        case Sql(target, text, _, nested):
            return f"{above}{_statement(target, text, nested)}"
        case Call(target, label, _, inputs, shown, stub, _, nested):
            note = "SQL has none, so there are no results here" if stub else "here in SQL"
            call = _comment(f"A step in Python, {note}: {label}({', '.join(inputs)})")
            return f"{above}{call}\n{_statement(target, shown, nested)}"
        case ProcessorCall():
            note = f"A processor in Python, which is not available here: {step.node.processor.name}"
            made = [f"{above}{_comment(note)}", _statement(step.target, step.shown, ())]
            made += [_changes_text(store, tables[store.table]) for store in step.stores]
            times = f"SELECT * FROM {quoted(step.times)} WHERE FALSE"
            return "\n".join((*made, _statement(step.times_new, times, ())))
        case Upsert(table, source, fresh, deletes):
            texts = upsert_texts(tables[table], source, deleting=deletes, fresh=fresh)
            return above + "\n".join(f"{laid_out(text)};" for text in texts)
        case Repeat(until_empty, steps):
            inner = "\n\n".join(_step_text(each, tables) for each in steps)
            begin = _comment(f"Repeat while {until_empty} has rows:")
            return f"{begin}\n\n{inner}\n\n-- End of what is repeated."
    assert_never(step)


def _changes_text(store: StoreTable, table: StateTable) -> str:
    text = f"SELECT *, FALSE AS {quoted(DELETED)} FROM {quoted(table.name)} WHERE FALSE"
    return _statement(store.changes, text, ())


def _statement(target: str | None, text: str, nested: Sequence[Nested]) -> str:
    nodes = {each.text_hash: each.nodes for each in nested}
    body = laid_out(text, lambda inner: _node_lines(nodes.get(hash(inner), ())))
    return f"{body};" if target is None else f"CREATE OR REPLACE TABLE {quoted(target)} AS\n{body};"


def _node_lines(nodes: Nodes) -> tuple[str, ...]:
    return tuple(line for node in nodes for line in _comment(describe(node)).split("\n"))


def _comment(text: str) -> str:
    return "\n".join(f"-- {line}" for line in text.splitlines())
