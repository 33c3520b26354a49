"""Programs as text, for EXPLAIN and golden files."""

from __future__ import annotations

from itertools import pairwise

from sqlglot import tokenize
from sqlglot.tokenizer_core import TokenType

from millstream.operators.program import Call, Program, Repeat, Sql, StateTable, Step, Upsert

_INDENT = "  "
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET}


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


def show_step(step: Step, depth: int = 0) -> str:
    """`name :=` and the SELECT, the call, or the write; `depth` of them are repeated."""
    margin = _INDENT * depth
    match step:
        case Sql(target, text):
            lines = laid_out(text, depth + 1)
            return f"{margin}{target} :=\n{lines}" if target else lines
        case Call(target, label, _, inputs):
            return f"{margin}{target} :=\n{margin}  call {label}({', '.join(inputs)})"
        case Upsert(table, source, fresh):
            verb = "insert" if fresh else "upsert"
            return f"{margin}{verb} {source} into {table}"
        case Repeat(until_empty, steps):
            inner = "\n\n".join(show_step(inner, depth + 1) for inner in steps)
            return f"{margin}while {until_empty} has rows:\n{inner}"


def laid_out(text: str, depth: int = 0) -> str:
    """SQL with its lines indented by the number of open parentheses. Only the space between tokens
    changes: literals and quoted names keep their lines."""
    tokens = tokenize(text, read="duckdb")
    pieces, opened = [_INDENT * depth], 0
    for token, following in pairwise((*tokens, None)):
        assert token is not None
        pieces.append(text[token.start : token.end + 1])
        opened += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if following is None:
            break
        space = text[token.end + 1 : following.start]
        closing = following.token_type in _CLOSING
        pieces.append(f"\n{_INDENT * (depth + opened - closing)}" if "\n" in space else space)
    return "".join(pieces)
