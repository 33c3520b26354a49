"""Expressions and types -> text: fully parenthesised, in the canonical form that messages, schemas
and EXPLAIN use."""

from __future__ import annotations

from sqlglot import exp

from .names import quote, quote_string
from .types import PRIMITIVES

_OPERATORS: dict[type[exp.Expression], str] = {
    exp.Or: "OR",
    exp.And: "AND",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.Like: "LIKE",
    exp.DPipe: "||",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
_TYPE_NAMES = {
    **{kind: name for name, kind in PRIMITIVES.items()},
    exp.DType.INT: "INTEGER",
    exp.DType.VARCHAR: "STRING",
}


def print_expression(tree: exp.Expression) -> str:
    """The canonical text of an expression; `parse_expression` returns an equal tree."""
    operator = _OPERATORS.get(type(tree))
    if operator:
        left, right = print_expression(tree.this), print_expression(tree.expression)
        return f"({left} {operator} {right})"
    match tree:
        case exp.Column(this=name, args={"table": exp.Identifier(this=table)}):
            return f"{quote(table)}.{_column(name)}"
        case exp.Column(this=name):
            return _column(name)
        case exp.Identifier(this=name):
            return quote(name)
        case exp.Var(this=word):
            return str(word)
        case exp.Star():
            return "*"
        case exp.Literal(this=text, is_string=True):
            return quote_string(text)
        case exp.Literal(this=text):
            return str(text)
        case exp.Boolean(this=value):
            return "true" if value else "false"
        case exp.Null():
            return "null"
        case exp.DataType():
            return print_type(tree)
        case _:
            return _predicate(tree) or _compound(tree)


def _column(name: exp.Expression) -> str:
    return "*" if isinstance(name, exp.Star) else quote(name.this)


def _predicate(tree: exp.Expression) -> str | None:
    match tree:
        case exp.Not(this=exp.Is(this=operand)):
            return f"({print_expression(operand)} IS NOT NULL)"
        case exp.Not(this=operand):
            return f"(NOT {print_expression(operand)})"
        case exp.Is(this=operand):
            return f"({print_expression(operand)} IS NULL)"
        case exp.In(this=operand, expressions=items):
            return f"({print_expression(operand)} IN ({_listed(items)}))"
        case exp.Between(this=operand, args={"low": low, "high": high}):
            bounds = f"{print_expression(low)} AND {print_expression(high)}"
            return f"({print_expression(operand)} BETWEEN {bounds})"
        case exp.Escape(this=exp.Like(this=operand, expression=pattern), expression=character):
            texts = [print_expression(e) for e in (operand, pattern, character)]
            return f"({texts[0]} LIKE {texts[1]} ESCAPE {texts[2]})"
        case _:
            return None


def _compound(tree: exp.Expression) -> str:
    match tree:
        case exp.Neg(this=operand):
            text = print_expression(operand)
            # Two signs in a row would start a comment.
            return f"-({text})" if text.startswith("-") else f"-{text}"
        case exp.AtTimeZone(this=operand, args={"zone": zone}):
            return f"{_operand(operand)} AT TIME ZONE {print_expression(zone)}"
        case exp.Dot(this=struct, expression=field):
            return f"{_operand(struct)}->{print_expression(field)}"
        case exp.Bracket(this=container, expressions=[index]):
            return f"{_operand(container)}[{print_expression(index)}]"
        case exp.Anonymous(this=name, expressions=arguments):
            # Plain MAP( and STRUCT( are constructors.
            written = f"`{name}`" if name in ("MAP", "STRUCT") else quote(name)
            return f"{written}({_listed(arguments)})"
        case exp.Array(expressions=items):
            return f"ARRAY[{_listed(items)}]"
        case exp.Map(args={"keys": keys, "values": values}):
            pairs = zip(keys.expressions, values.expressions, strict=True)
            entries = (f"{print_expression(k)}:={print_expression(v)}" for k, v in pairs)
            return f"MAP({', '.join(entries)})"
        case exp.Struct(expressions=fields):
            return f"STRUCT({_listed(fields)})"
        case exp.PropertyEQ(this=name, expression=value):
            return f"{print_expression(name)}:={print_expression(value)}"
        case exp.Cast(this=operand, args={"to": target}):
            return f"CAST({print_expression(operand)} AS {print_type(target)})"
        case exp.Lambda(this=body, expressions=parameters):
            names = ", ".join(quote(p.this) for p in parameters)
            head = names if len(parameters) == 1 else f"({names})"
            return f"{head} => {print_expression(body)}"
        case exp.Case():
            return _case(tree)
        case _:
            raise ValueError(f"{type(tree).__name__} is not a node that the parser makes")


def _operand(tree: exp.Expression) -> str:
    """The operand of `[`, `->` and AT TIME ZONE."""
    text = print_expression(tree)
    if isinstance(tree, exp.Neg | exp.AtTimeZone):
        return f"({text})"
    # A plain ARRAY[ is a constructor.
    return "`ARRAY`" if text == "ARRAY" else text


def _listed(items: list[exp.Expression]) -> str:
    return ", ".join(print_expression(item) for item in items)


def _case(tree: exp.Case) -> str:
    operand = tree.this
    parts = ["CASE"] if operand is None else [f"CASE {print_expression(operand)}"]
    for branch in tree.args["ifs"]:
        condition, result = print_expression(branch.this), print_expression(branch.args["true"])
        parts.append(f"WHEN {condition} THEN {result}")
    default = tree.args.get("default")
    if default is not None:
        parts.append(f"ELSE {print_expression(default)}")
    return f"({' '.join(parts)} END)"


def print_type(tree: exp.DataType) -> str:
    """The canonical text of a type: INTEGER and STRING rather than INT and VARCHAR."""
    kind = tree.this
    inner = tree.expressions
    match kind:
        case exp.DType.ARRAY | exp.DType.MAP:
            return f"{kind.value}<{', '.join(print_type(t) for t in inner)}>"
        case exp.DType.STRUCT:
            fields = (f"{quote(f.this.this)} {print_type(f.args['kind'])}" for f in inner)
            return f"STRUCT<{', '.join(fields)}>"
        case exp.DType.DECIMAL:
            parameters = ", ".join(print_expression(p.this) for p in inner)
            return f"DECIMAL({parameters})" if inner else "DECIMAL"
        case exp.DType.USERDEFINED:
            name = str(tree.args["kind"])
            return f"`{name}`" if name in PRIMITIVES else quote(name)
        case _:
            return _TYPE_NAMES[kind]
