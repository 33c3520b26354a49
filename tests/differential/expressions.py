"""Random scalar expressions, and the macros that their DuckDB spellings use.

An argument is total where the surroundings do not decide by themselves whether it is evaluated
(branches of CASE, operands of AND): rules that `fail` are left out there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.differential.describe import Column, Expr
from tests.differential.rules import AMOUNT, RULES, Rule

MACROS = (
    "wrap32(x) AS CAST(((x::HUGEINT + 2147483648) % 4294967296 + 4294967296) % 4294967296"
    " - 2147483648 AS INTEGER)",
    "wrap64(x) AS CAST(((x::HUGEINT + 9223372036854775808) % 18446744073709551616"
    " + 18446744073709551616) % 18446744073709551616 - 9223372036854775808 AS BIGINT)",
    "nonzero(x) AS CASE WHEN x = 0 THEN CAST('zero' || x AS INTEGER) ELSE x END",
    # Both sides are computed in any case, and may fail: DuckDB passes over the right one where TRY
    # looks at rows one by one and the left one is NULL. It computes all of a list.
    "beside(x, y) AS list_transform([struct_pack(l := x, r := y)],"
    " lambda v: CASE WHEN v.r IS NOT NULL THEN v.l END)[1]",
    "divisor(x, y) AS CASE WHEN y IS NULL THEN NULL WHEN x IS NOT NULL THEN nonzero(y) END",
    "divided(x, y) AS beside(x, y)::HUGEINT // divisor(x, y)",
    "remainder(x, y) AS beside(x, y)::HUGEINT % divisor(x, y)",
    "within(x, low, high) AS CASE WHEN x IS NOT NULL THEN greatest(least(x, high), low) END",
    "seen(l) AS list_filter(l, lambda x: x IS NOT NULL)",
    "distinct_of(l) AS list_transform(list_filter(range(1, len(l) + 1), lambda i:"
    " len(list_filter(range(1, i), lambda j: l[j] IS NOT DISTINCT FROM l[i])) = 0),"
    " lambda i: l[i])",
    "holds(l, v) AS len(list_filter(l, lambda x: x IS NOT DISTINCT FROM v)) > 0",
    r"stripped(x) AS regexp_replace(x, '^[\x00-\x20]+|[\x00-\x20]+$', '', 'g')",
    # Java counts what lies beyond 16 bits twice.
    r"beyond(x) AS regexp_replace(x, '[\x{0}-\x{FFFF}]', '', 'g')",
    "units(x) AS CAST(length(x) + length(beyond(x)) AS INTEGER)",
    "place(x, y) AS CASE WHEN coalesce(instr(x, y), 0) = 0 THEN 0"
    " ELSE units(left(x, instr(x, y) - 1)) + 1 END",
    # The UTF-16 units of a text; H and L are the halves of what has two. A half alone is a `?`,
    # as Java writes it.
    "halves(x) AS list_transform([x], lambda t: flatten(list_transform(range(1, length(t) + 1),"
    " lambda i: CASE WHEN unicode(substring(t, i, 1)) > 65535"
    " THEN ['H' || substring(t, i, 1), 'L' || substring(t, i, 1)]"
    " ELSE [substring(t, i, 1)] END)))[1]",
    "whole(l) AS list_transform([l], lambda h: array_to_string(list_transform("
    "range(1, len(h) + 1), lambda i: CASE WHEN length(h[i]) = 1 THEN h[i]"
    " WHEN h[i][1] = 'H' AND h[i + 1] = 'L' || h[i][2] THEN h[i][2]"
    " WHEN h[i][1] = 'L' AND i > 1 AND h[i - 1] = 'H' || h[i][2] THEN '' ELSE '?' END), ''))[1]",
    "ending(x) AS list_transform([halves(x)], lambda h: h[greatest(len(h) - 1, 1):])[1]",
    "fill(n, p) AS flatten(list_transform(range(0, n), lambda k: halves(p)))[:greatest(n, 0)]",
    "padded(x, n, p) AS CASE WHEN x IS NOT NULL THEN list_transform([halves(x)], lambda h:"
    " list_concat(h[:n], fill(n - len(h), p)))[1] END",
    "padding(x, n, p) AS CASE WHEN x IS NOT NULL THEN list_transform([halves(x)], lambda h:"
    " list_concat(fill(n - len(h), p), h[:n]))[1] END",
    "half_up(x) AS sign(x) * floor(abs(x) + 0.5)",
    "counted(l) AS map(distinct_of(seen(l)), list_transform(distinct_of(seen(l)),"
    " lambda x: len(list_filter(l, lambda y: y = x))))",
)
"""What the oracle's spellings use."""

TEXTS = (
    *("'a'", "'it''s'", "''"),
    *("'a\n   b'", "'\n  '' -- \n   '", "'/*\n  */'", "'$$'", "'{0} %s\n  ${x}'"),
    *("'\\n\n  \\ud800'", "'😀\r\n  👩‍👧'", "'  \t'", "'\u2028  \"in_0\"'", "'\0\n  '"),
)
"""Literals of the dialect that DuckDB reads as the same text."""


def escaped_braces(text: str) -> str:
    """The text as a template without places."""
    return text.replace("{", "{{").replace("}", "}}")


LITERALS: dict[str, tuple[tuple[str, str], ...]] = {
    "INT": (("0", "0"), ("1", "1"), ("3", "3"), ("2147483647", "2147483647")),
    "BIGINT": (("CAST(2 AS BIGINT)", "2::BIGINT"), ("CAST(50 AS BIGINT)", "50::BIGINT")),
    "DOUBLE": (("1.5E0", "1.5::DOUBLE"), ("0E0", "0::DOUBLE")),
    AMOUNT: (("CAST(2.50 AS DECIMAL(8, 2))", "2.50::DECIMAL(8, 2)"),),
    "STRING": tuple((text, text) for text in map(escaped_braces, TEXTS)),
    "BOOLEAN": (("TRUE", "TRUE"), ("FALSE", "FALSE")),
    "DATE": (("FROM_DAYS(10)", "DATE '1970-01-11'"),),
    "TIMESTAMP": (
        ("FROM_UNIXTIME(CAST(86400001 AS BIGINT))", "TIMESTAMP '1970-01-02 00:00:00.001'"),
    ),
}


def rules_for(result: str | None, *, total: bool) -> list[Rule]:
    """Rules that give a type (any when None)."""
    return [
        rule
        for rule in RULES
        if (result is None or rule.result == result) and not (total and rule.fails)
    ]


def leaf(rng: random.Random, kind: str, columns: Sequence[Column]) -> Expr | None:
    """A column of the type, now and then a literal; None where there is neither."""
    fitting = [column for column in columns if column.type == kind]
    literals = LITERALS.get(kind, ())
    # A BOOLEAN column may be NULL, which has no meaning as an operand of AND.
    if kind == "BOOLEAN":
        fitting = []
    if fitting and (not literals or rng.random() < 0.85):
        column = rng.choice(fitting)
        return Expr(kind, column=column.name)
    if literals:
        sql, oracle = rng.choice(literals)
        return Expr(kind, sql, oracle)
    return None


def expression(
    rng: random.Random, kind: str, columns: Sequence[Column], depth: int, *, total: bool = False
) -> Expr | None:
    """A random expression of a type; None where the columns do not allow one."""
    if depth == 0 or rng.random() < 0.15:
        return leaf(rng, kind, columns)
    rules = rules_for(kind, total=total)
    rng.shuffle(rules)
    for rule in rules[:6]:
        made = apply_rule(rng, rule, columns, depth, total=total)
        if made is not None:
            return made
    return leaf(rng, kind, columns)


def apply_rule(
    rng: random.Random, rule: Rule, columns: Sequence[Column], depth: int, *, total: bool = False
) -> Expr | None:
    """The rule over random arguments, at least one of which reads a column."""
    arguments = []
    for kind in rule.arguments:
        total_argument = total or rule.lazy
        made = expression(rng, kind, columns, depth - 1, total=total_argument)
        if made is None:
            return None
        arguments.append(made)
    found = Expr(rule.result, rule.sql, rule.oracle, tuple(arguments))
    return found if any(found.columns()) else None
