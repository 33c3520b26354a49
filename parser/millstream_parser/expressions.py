"""Expressions by precedence climbing: text -> sqlglot trees. Operands are in `primaries.py`.

Loosest to tightest: OR, AND, NOT, comparisons and predicates, `||`, `+ -`, `* / %`, unary sign,
AT TIME ZONE, then primaries with `[…]` and `->`.

| written                                  | node                                         |
|------------------------------------------|---------------------------------------------|
| `c`, `s.c`                               | Column(Identifier, table=Identifier)         |
| `a->b`, `a[i]`                           | Dot(a, Identifier), Bracket(a, [i])          |
| `f(x)`, `f(*)`                           | Anonymous("F", [x]), Anonymous("F", [Star])  |
| `ARRAY[x]`, `MAP(k := v)`                | Array, Map(keys=Array, values=Array)         |
| `STRUCT(f := v)`                         | Struct of PropertyEQ(Identifier, v)          |
| `CASE`, `CAST`, `DECIMAL '1.2'`          | Case, Cast                                   |
| `(a, b) => e`                            | Lambda(e, [Identifier, …])                   |
| `1`, `'x'`, `TRUE`, `NULL`               | Literal, Boolean, Null; numbers keep their text|
| `!=` `<>`                                | NEQ                                          |
| `IS [NOT] DISTINCT FROM`                 | NullSafeNEQ (NullSafeEQ)                     |
| `BETWEEN`, `IN`, `LIKE … ESCAPE`         | Between, In, Like, Escape(Like, Literal)     |
| `NOT IN` and every other negated form    | Not(…)                                       |
| `IS NULL`                                | Is(e, Null)                                  |
| `DATEADD(DAYS, …)`                       | Var("DAYS") as the argument                  |
| `e AT TIME ZONE 'z'`                     | AtTimeZone                                   |

The tree contains neither parentheses nor unary plus. Names are folded; `meta["span"]` of every node
is its character range.
"""

from __future__ import annotations

from sqlglot import exp

from .cursor import MAX_DEPTH, Cursor
from .primaries import primary
from .tokens import Kind

_OR, _AND, _NOT, _PREDICATE, _CONCAT, _SUM, _PRODUCT, _SIGN = range(1, 9)
CHAIN = 32
"""More ANDs or ORs in a row than this become a balanced tree."""

_BINARY: dict[str, tuple[int, type[exp.Expression]]] = {
    "OR": (_OR, exp.Or),
    "AND": (_AND, exp.And),
    "=": (_PREDICATE, exp.EQ),
    "<>": (_PREDICATE, exp.NEQ),
    "!=": (_PREDICATE, exp.NEQ),
    "<": (_PREDICATE, exp.LT),
    "<=": (_PREDICATE, exp.LTE),
    ">": (_PREDICATE, exp.GT),
    ">=": (_PREDICATE, exp.GTE),
    "||": (_CONCAT, exp.DPipe),
    "+": (_SUM, exp.Add),
    "-": (_SUM, exp.Sub),
    "*": (_PRODUCT, exp.Mul),
    "/": (_PRODUCT, exp.Div),
    "%": (_PRODUCT, exp.Mod),
}
_TRANSPARENT = (exp.Column, exp.ColumnDef, exp.If, exp.Lambda, exp.Map, exp.PropertyEQ)
_NEGATABLE = ("BETWEEN", "IN", "LIKE")


def expression(cursor: Cursor) -> exp.Expression:
    """`expr`: anything, boolean operators included."""
    return climb(cursor, _OR)


def value_expression(cursor: Cursor) -> exp.Expression:
    """`value`: as tight as `||`; the operand of GROUP BY, PARTITION BY and index brackets."""
    return climb(cursor, _CONCAT)


def climb(cursor: Cursor, minimum: int) -> exp.Expression:
    """An expression of operators that bind at least as tightly as `minimum`.

    Every level of nesting costs one call of this and one of `primary`, so that the depth limit is
    reached well before Python's own.
    """
    outermost = cursor.depth == 0
    start = cursor.at
    with cursor.nested():
        left = _prefixed(cursor, minimum) or primary(cursor)
        while True:
            word = cursor.token.upper
            level, node = _BINARY.get(word, (0, None))
            if node is not None and level >= minimum:
                if level <= _AND:
                    left = _connected(cursor, left, start, word)
                    continue
                cursor.advance()
                tree: exp.Expression = node(this=left, expression=climb(cursor, level + 1))
            elif minimum <= _PREDICATE and _starts_predicate(cursor):
                tree = _predicate(cursor, left, start)
            elif word == "AT":
                tree = _zoned(cursor, left)
            else:
                break
            left = cursor.marked(tree, start)
    if outermost:
        _check_height(cursor, left, start)
    return left


def _check_height(cursor: Cursor, tree: exp.Expression, start: int) -> None:
    """A chain such as a + b + … is as deep as it is long although nothing is nested in the text,
    and all later tree walks rely on the limit. The nesting of the printed text is measured, so that
    an accepted tree is accepted again after printing. This function itself does not recurse."""
    stack = [(tree, 1)]
    while stack:
        node, level = stack.pop()
        if level >= MAX_DEPTH:
            raise cursor.too_deep(cursor.tokens[start])
        stack.extend((child, level + _step(node, child)) for child in node.iter_expressions())


def _step(node: exp.Expression, child: object) -> int:
    """How much deeper a child is nested in print: operators come with parentheses of their own."""
    if isinstance(node, _TRANSPARENT):
        return 0
    if isinstance(node, exp.Bracket | exp.Dot | exp.DataType):
        return 1
    if isinstance(node, exp.Case):
        return 3
    return 1 if isinstance(node, exp.Binary) and child is node.this else 2


def _prefixed(cursor: Cursor, minimum: int) -> exp.Expression | None:
    """NOT or a sign with its operand, if there is one here."""
    start = cursor.at
    if minimum <= _NOT and cursor.accept("NOT"):
        return cursor.marked(exp.Not(this=climb(cursor, _NOT)), start)
    if cursor.accept("+"):
        return climb(cursor, _SIGN)
    if not cursor.accept("-"):
        return None
    if cursor.token.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
        # The lowest 64-bit integer is in range only with its sign.
        operand = primary(cursor, negative=True)
        while cursor.looking_at("AT"):
            operand = cursor.marked(_zoned(cursor, operand), start + 1)
    else:
        operand = climb(cursor, _SIGN)
    return cursor.marked(exp.Neg(this=operand), start)


def _connected(cursor: Cursor, first: exp.Expression, start: int, word: str) -> exp.Expression:
    """`first AND … AND …`: a left-deep tree if the chain is short."""
    level, _ = _BINARY[word]
    operands = [first]
    while cursor.accept(word):
        operands.append(climb(cursor, level + 1))
    return _joined(cursor, operands, exp.And if word == "AND" else exp.Or, start)


def _joined(
    cursor: Cursor, operands: list[exp.Expression], node: type[exp.Expression], start: int
) -> exp.Expression:
    """AND and OR are associative in two-valued logic, so long chains are split in half to stay
    shallow."""
    if len(operands) > CHAIN:
        middle = len(operands) // 2
        operands = [
            _joined(cursor, operands[:middle], node, start),
            _joined(cursor, operands[middle:], node, start),
        ]
    tree = operands[0]
    for right in operands[1:]:
        tree = cursor.marked(node(this=tree, expression=right), start)
    return tree


def _starts_predicate(cursor: Cursor) -> bool:
    word = cursor.token.upper
    if word == "NOT":
        return cursor.ahead(1).upper in _NEGATABLE
    return word == "IS" or word in _NEGATABLE


def _predicate(cursor: Cursor, left: exp.Expression, start: int) -> exp.Expression:
    """The predicate that follows `left`."""
    if cursor.accept("IS"):
        return _is(cursor, left, start)
    negated = cursor.accept("NOT")
    tree: exp.Expression
    match cursor.expect_one(*_NEGATABLE):
        case "BETWEEN":
            low = climb(cursor, _CONCAT)
            cursor.expect("AND")
            tree = exp.Between(this=left, low=low, high=climb(cursor, _CONCAT))
        case "IN":
            cursor.expect("(")
            tree = exp.In(this=left, expressions=list(cursor.comma_list(expression, ")")))
        case _:
            tree = _escaped(cursor, exp.Like(this=left, expression=climb(cursor, _CONCAT)))
    return exp.Not(this=cursor.marked(tree, start)) if negated else tree


def _is(cursor: Cursor, left: exp.Expression, start: int) -> exp.Expression:
    negated = cursor.accept("NOT")
    if cursor.accept("DISTINCT", "FROM"):
        node = exp.NullSafeEQ if negated else exp.NullSafeNEQ
        return node(this=left, expression=climb(cursor, _CONCAT))
    if not cursor.accept("NULL"):
        raise cursor.unexpected(*(() if negated else ("'NOT'",)), "'DISTINCT'", "'NULL'")
    null = cursor.marked(exp.Null(), cursor.at - 1)
    tree = exp.Is(this=left, expression=null)
    return exp.Not(this=cursor.marked(tree, start)) if negated else tree


def _escaped(cursor: Cursor, like: exp.Like) -> exp.Expression:
    if not (cursor.looking_at("ESCAPE") and cursor.ahead(1).kind is Kind.STRING):
        return like
    cursor.expect("ESCAPE")
    token = cursor.token
    character = cursor.string()
    if len(character) != 1:
        raise cursor.fail(
            f"Expected exactly one character in ESCAPE clause, got: {token.text}", token
        )
    literal = cursor.marked(exp.Literal.string(character), cursor.at - 1)
    return exp.Escape(this=like, expression=literal)


def _zoned(cursor: Cursor, operand: exp.Expression) -> exp.Expression:
    cursor.expect("AT", "TIME", "ZONE")
    zone = cursor.marked(exp.Literal.string(cursor.string()), cursor.at - 1)
    return exp.AtTimeZone(this=operand, zone=zone)
