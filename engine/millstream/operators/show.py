"""Programs as text, for EXPLAIN and golden files."""

from __future__ import annotations

from millstream.operators.program import Call, Program, Repeat, Sql, StateTable, Step, Upsert


def show_program(program: Program, *, exact: bool = False) -> str:
    """The state tables, then the steps in order; `exact` shows the guarded ones."""
    tables = [show_table(table) for table in program.tables]
    steps = [show_step(step) for step in (program.exact if exact else program.steps)]
    return "\n\n".join((*tables, *steps)) + "\n"


def show_table(table: StateTable) -> str:
    """One line: columns, the key ones before a semicolon."""
    key = ", ".join(f"{name} {kind}" for name, kind in table.key)
    value = ", ".join(f"{name} {kind}" for name, kind in table.value)
    return f"state {table.name} ({key}; {value})"


def show_step(step: Step) -> str:
    """`name :=` and the SELECT, the call, or the write."""
    match step:
        case Sql(target, text):
            return f"{target} :=\n{_indented(text)}" if target else _indented(text)
        case Call(target, label, _, inputs):
            return f"{target} :=\n  call {label}({', '.join(inputs)})"
        case Upsert(table, source, fresh):
            verb = "insert" if fresh else "upsert"
            return f"{verb} {source} into {table}"
        case Repeat(until_empty, steps):
            inner = "\n\n".join(show_step(inner) for inner in steps)
            return f"while {until_empty} has rows:\n{_indented(inner)}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
