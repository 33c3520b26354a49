"""Bounds the growth of texts in pull queries beyond the dialect, which may nest: an expression that
doubles a text forty times must fail early."""

from __future__ import annotations

from sqlglot import exp

from millstream.functions.scalar.bounds import (
    CONCAT_WS,
    REPLACED_SIZE,
    SEPARATED_SIZE,
    TEXTS_SIZE,
    bounded_texts,
)

_CONCATENATED = "coalesce(array_to_string(_l, ''), '')"
_CHAINED = (
    "CASE WHEN len(list_filter(_l, lambda _x: _x IS NULL)) = 0 THEN " + _CONCATENATED + " END"
)
_MATCHED_SIZE = "(strlen(_l[1]) + 1) * greatest(1, strlen(_l[3]))"
_GROWING = (exp.DPipe, exp.Concat, exp.Replace, exp.RegexpReplace)
_REPLACED = "replace(_l[1], _l[2], _l[3])"


def bounded_growth(tree: exp.Expr) -> exp.Expr:
    """The query with calls that could build large values replaced by ones that check the size
    first. Their arguments are read as texts."""
    for select in tree.find_all(exp.Select):
        for item in list(select.expressions):
            if not isinstance(item, exp.Alias) and item.find(*_GROWING):
                item.replace(exp.alias_(item.copy(), item.sql(dialect="duckdb"), quoted=True))
    return _without_growth(tree)


def _without_growth(tree: exp.Expr) -> exp.Expr:
    return tree.transform(_bounded)


def _bounded(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.DPipe():
            return _call("Concatenation", _chain(node), _CHAINED)
        case exp.ConcatWs():
            return _call("CONCAT_WS", node.expressions, CONCAT_WS, SEPARATED_SIZE)
        case exp.Concat():
            return _call("CONCAT", node.expressions, _CONCATENATED)
        case exp.Replace():
            parts = [node.this, node.expression, node.args["replacement"]]
            return _call("REPLACE", parts, _REPLACED, REPLACED_SIZE)
        case exp.RegexpReplace():
            parts = [node.this, node.expression, node.args["replacement"]]
            modifiers = node.args.get("modifiers")
            more = "" if modifiers is None else f", {modifiers.sql(dialect='duckdb')}"
            body = f"regexp_replace(_l[1], _l[2], _l[3]{more})"
            return _call("REGEXP_REPLACE", parts, body, _MATCHED_SIZE)
        case _:
            return node


def _chain(node: exp.Expr) -> list[exp.Expr]:
    """The operands of `a || b || …`, for any length."""
    parts = []
    while isinstance(node, exp.DPipe):
        parts.append(node.right)
        node = node.left
    return [node, *reversed(parts)]


def _call(name: str, parts: list[exp.Expr], body: str, size: str = TEXTS_SIZE) -> exp.Expr:
    written = (_without_growth(part).sql(dialect="duckdb") for part in parts)
    texts = ", ".join(f"CAST({text} AS VARCHAR)" for text in written)
    text = bounded_texts(name, texts, body, size)
    return exp.Var(this=text)
