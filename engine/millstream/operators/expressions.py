"""Compiles typed expressions into DuckDB text.

Two texts for each expression: the *fast* one has the dialect's value or makes DuckDB raise; the
*exact* one has the dialect's value wherever there is one and raises only for rows without one.
`sql.guarded` wraps the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from millstream.functions.function import Catalogue
from millstream.model.expressions import (
    AggregateCall,
    Arithmetic,
    Attempt,
    Between,
    Call,
    Case,
    Cast,
    ColumnRef,
    Compare,
    Expression,
    FieldOf,
    In,
    IsNull,
    LambdaExpression,
    LambdaRef,
    Like,
    Literal,
    Logical,
    MakeArray,
    MakeMap,
    MakeStruct,
    Negate,
    Not,
    Subscript,
    TableCall,
)
from millstream.model.physical import physical_name, physical_names
from millstream.model.types import (
    BOOLEAN,
    STRING,
    Array,
    Map,
    SqlType,
    Struct,
)
from millstream.operators.arithmetic import arithmetic, negate
from millstream.operators.casts import convert
from millstream.operators.failures import (
    NULL_SAFE,
    cannot_raise,
    contained_as_argument,
    failing,
    never_null,
)
from millstream.operators.scalar import bound, call_text, is_volatile, with_bound
from millstream.operators.sql import array, call, cast, literal, struct, typed_literal
from millstream.operators.unordered import unordered


@dataclass(frozen=True, slots=True)
class _Setting:
    catalogue: Catalogue
    exact: bool
    columns: Callable[[str], str]
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Visible lambda parameters -> text."""
    depth: int = 0
    """The nesting depth of lambdas; makes their names distinct."""
    absorbed: bool = False
    """Whether an enclosing expression returns a value for NULL, so that NULL and a failure differ.
    """
    contained: bool = True
    """Whether exact text has NULL for the parts that may fail by themselves; see `_contained`."""


def compile_expression(
    expression: Expression,
    catalogue: Catalogue,
    *,
    exact: bool,
    columns: Callable[[str], str],
    contained: bool = True,
) -> str:
    """The value of an expression as DuckDB text, without a guard around it.

    `columns` gives the SQL of a column. Unless `contained`, the failure of any part is one of the
    whole. The connection needs the functions that `udfs.register_expressions` registers.
    """
    return _text(expression, _Setting(catalogue, exact, columns, contained=contained))


def compile_argument(
    expression: Expression,
    catalogue: Catalogue,
    *,
    columns: Callable[[str], str],
    contained: bool,
) -> str:
    """As `compile_expression`, exact and as an argument of a function, where NULL and a failure
    differ."""
    setting = _Setting(catalogue, True, columns, absorbed=True, contained=contained)
    return _argument(expression, setting)


def compile_predicate(
    expression: Expression,
    catalogue: Catalogue,
    *,
    exact: bool,
    columns: Callable[[str], str],
    contained: bool = True,
) -> str:
    """A condition for WHERE, which may be NULL instead of FALSE. See `compile_expression`."""
    return _condition(expression, _Setting(catalogue, exact, columns, contained=contained))


def _contained(expression: Expression, setting: _Setting) -> str:
    """The text of a part whose failure makes this part NULL instead of the whole expression; see
    `failures.contained_parts`."""
    text = _text(expression, setting)
    attempted = isinstance(expression, Cast) and not expression.implicit
    return text if attempted else _attempted(text, expression, setting)


def _attempted(text: str, expression: Expression, setting: _Setting) -> str:
    """`text` with NULL where it raises."""
    if not (setting.exact and setting.contained) or cannot_raise(expression):
        return text
    if is_volatile(expression, setting.catalogue):
        return text  # DuckDB has no TRY for it.
    return f"TRY({text})"


def _text(expression: Expression, setting: _Setting) -> str:
    match expression:
        case ColumnRef(name) | Attempt(name):
            return setting.columns(name)
        case LambdaRef(name):
            return setting.parameters[name]
        case Literal():
            return typed_literal(expression)
        case Cast(operand, kind, implicit):
            converted = convert(
                _text(operand, setting),
                operand.type,
                kind,
                exact=setting.exact,
                depth=setting.depth,
            )
            return converted if implicit else _attempted(converted, expression, setting)
        case Arithmetic():
            return _arithmetic(expression, setting)
        case Negate(operand, kind):
            return negate(_text(operand, setting), kind, exact=setting.exact)
        case Compare() | Between() | In() | Like() | IsNull() | Logical() | Not():
            return _boolean(expression, setting)
        case Case(branches, default, kind):
            whens = (
                f"WHEN {_condition(when, absorbing(setting))} THEN {_text(then, setting)}"
                for when, then in branches
            )
            otherwise = cast("NULL", kind) if default is None else _text(default, setting)
            return f"CASE {' '.join(whens)} ELSE {otherwise} END"
        case MakeArray(items):
            return array([_contained(item, setting) for item in items])
        case MakeMap():
            return _map(expression, setting)
        case MakeStruct(fields):
            names = physical_names(name for name, _ in fields)
            texts = (_contained(item, setting) for _, item in fields)
            return struct(list(zip(names, texts, strict=True)))
        case Subscript():
            return _subscript(expression, setting)
        case FieldOf(base, name):
            assert isinstance(base.type, Struct)
            physical = physical_name(name, [member.name for member in base.type.fields])
            return call("struct_extract", _text(base, setting), literal(physical))
        case Call():
            return _call(expression, setting)
        case TableCall() | AggregateCall() | LambdaExpression():
            raise TypeError(f"{expression} is computed by an operator, not by an expression")


def _arithmetic(expression: Arithmetic, setting: _Setting) -> str:
    """Both operands are computed, so that a failure of the right one fails the whole. DuckDB skips
    it where the left one is NULL in a whole vector of a batch."""
    sides = [expression.left, expression.right]
    texts = [_text(side, setting) for side in sides]
    skipped = setting.absorbed and not (isinstance(sides[0], Literal) or cannot_raise(sides[1]))
    given, texts = bound(texts, [1] if skipped else [], setting.depth)
    typed = [(text, side.type) for text, side in zip(texts, sides, strict=True)]
    kind = expression.type
    made = arithmetic(expression.operator, typed[0], typed[1], kind, exact=setting.exact)
    made = made if setting.depth == 0 else _refuse_null(made, typed, kind)
    return with_bound(made, given, setting.depth)


def absorbing(setting: _Setting) -> _Setting:
    """The same inside an expression that returns a value for NULL."""
    return setting if setting.absorbed else replace(setting, absorbed=True)


def _refuse_null(text: str, sides: list[tuple[str, SqlType]], kind: SqlType) -> str:
    """Arithmetic inside a lambda: a NULL is an error there, so that the whole call is NULL."""
    missing = " OR ".join(f"{side} IS NULL" for side, _ in sides)
    refused = cast("'arithmetic on NULL in a lambda'", kind)
    return text if kind == STRING else f"CASE WHEN {missing} THEN {refused} ELSE {text} END"


def _boolean(expression: Expression, setting: _Setting) -> str:
    """Predicates, never NULL but for AND, OR and NOT of NULL."""
    match expression:
        case IsNull(operand, negated):
            text = _text(operand, absorbing(setting))
            return f"({text} IS {'NOT ' if negated else ''}NULL)"
        case Compare(operator) if operator in NULL_SAFE:
            return _condition(expression, setting)
        case Between(negated=True) | In(negated=True) | Like(negated=True):
            plain = _boolean(replace(expression, negated=False), setting)
            return f"(NOT {plain})"
        case Compare() | Between() | In() | Like():
            return f"coalesce({_condition(expression, setting)}, FALSE)"
        case Not(operand):
            return f"(NOT {_unboxed(operand, setting)})"
        case Logical(operator, left, right):
            a, b = _unboxed(left, setting), _unboxed(right, setting)
            if not setting.absorbed and not (never_null(left) and never_null(right)):
                # A NULL operand is an error unless the other one is not evaluated.
                first = (a, "TRUE") if operator == "OR" else (f"NOT {a}", "FALSE")
                second = f"NOT {a}" if operator == "OR" else a
                return f"CASE WHEN {first[0]} THEN {first[1]} WHEN {second} THEN {b} END"
            return _connected(operator, a, b, cannot_raise(left) and cannot_raise(right))
        case _:
            return _text(expression, setting)


def _unboxed(expression: Expression, setting: _Setting) -> str:
    """An operand of AND, OR and NOT: NULL is a failure. If no enclosing expression distinguishes
    them, NULL represents it."""
    text = _text(expression, setting)
    if not setting.absorbed or never_null(expression):
        return text
    refused = cast("'no condition'", BOOLEAN)
    return f"CASE WHEN {text} IS NULL THEN {refused} ELSE {text} END"


def _condition(expression: Expression, setting: _Setting) -> str:
    """As `_boolean`, but NULL may represent FALSE."""
    match expression:
        case Compare():
            return _compared(expression, absorbing(setting))
        case Between(operand, low, high, False):
            setting = absorbing(setting)
            texts = [_text(item, setting) for item in (operand, low, high)]
            if not setting.exact or (cannot_raise(low) and cannot_raise(high)):
                return f"({texts[0]} BETWEEN {texts[1]} AND {texts[2]})"
            given, (value, *_) = bound(texts[:1], [0], setting.depth)
            made = (
                f"CASE WHEN {value} IS NULL THEN FALSE WHEN {value} >= {texts[1]} "
                f"THEN {value} <= {texts[2]} ELSE FALSE END"
            )
            return with_bound(made, given, setting.depth)
        case In(operand, options, False):
            setting = absorbing(setting)
            given, texts = bound(
                [_comparable(item, setting) for item in (operand, *options)],
                [place for place in failing((operand, *options)) if place],
                setting.depth,
            )
            made = f"({texts[0]} IN ({', '.join(texts[1:])}))"
            return with_bound(made, given, setting.depth)
        case Like(operand, pattern, escape, False):
            setting = absorbing(setting)
            suffix = "" if escape is None else f" ESCAPE {literal(escape)}"
            given, texts = bound(
                [_text(item, setting) for item in (operand, pattern)],
                [] if cannot_raise(pattern) else [1],
                setting.depth,
            )
            made = f"({texts[0]} LIKE {texts[1]}{suffix})"
            return with_bound(made, given, setting.depth)
        case Logical(operator, left, right) if not setting.absorbed and (
            operator == "AND" or never_null(left)
        ):
            a, b = _condition(left, setting), _condition(right, setting)
            return _connected(operator, a, b, cannot_raise(left) and cannot_raise(right))
        case _:
            return _boolean(expression, setting)


def _compared(expression: Compare, setting: _Setting) -> str:
    """If the left operand is NULL the right one is not evaluated; IS DISTINCT FROM evaluates both.
    DuckDB does not specify what it evaluates."""
    left, right = expression.left, expression.right
    texts = [_comparable(side, setting) for side in (left, right)]
    if not setting.exact or cannot_raise(right) or isinstance(left, Literal):
        return f"({texts[0]} {expression.operator} {texts[1]})"
    if expression.operator in NULL_SAFE:
        given, texts = bound(texts, [0, 1], setting.depth)
        return with_bound(f"({texts[0]} {expression.operator} {texts[1]})", given, setting.depth)
    given, texts = bound(texts, [] if isinstance(left, ColumnRef) else [0], setting.depth)
    compared = f"{texts[0]} {expression.operator} {texts[1]}"
    made = f"CASE WHEN {texts[0]} IS NOT NULL THEN {compared} END"
    return with_bound(made, given, setting.depth)


def _connected(operator: str, a: str, b: str, free: bool) -> str:
    """AND or OR; unless `free`, the second operand is evaluated only where the first does not
    decide, which DuckDB does not specify."""
    if free:
        return f"({a} {operator} {b})"
    return f"CASE WHEN {a} THEN {b if operator == 'AND' else 'TRUE'} ELSE " + (
        "FALSE END" if operator == "AND" else f"{b} END"
    )


def _comparable(expression: Expression, setting: _Setting) -> str:
    return unordered(_text(expression, setting), expression.type, setting.depth)


def _map(expression: MakeMap, setting: _Setting) -> str:
    """The last of equal keys wins; a NULL key is the text `null`, as JSON shows it."""
    assert isinstance(expression.type, Map)
    keys, values = [], []
    for key, value in expression.entries:
        text = _contained(key, setting)
        if key.type == STRING and not (isinstance(key, Literal) and key.value is not None):
            text = f"coalesce({text}, 'null')"
        keys.append(text)
        values.append(_contained(value, setting))
    if not setting.exact:
        return call("map", array(keys), array(values))
    item, place = f"_k{setting.depth}", f"_i{setting.depth}"
    entries = array([struct([("key", k), ("value", v)]) for k, v in zip(keys, values, strict=True)])
    later = f"list_contains({array(keys)}[{place} + 1:], {item}.key)"
    kept = f"list_filter({entries}, lambda {item}, {place}: NOT {later})"
    return call("map_from_entries", kept)


def _subscript(expression: Subscript, setting: _Setting) -> str:
    base, index = _text(expression.base, setting), _text(expression.index, setting)
    if isinstance(expression.base.type, Array):
        return f"({base})[CAST({index} AS BIGINT)]"
    return f"({base})[{index}]"


def _call(expression: Call, setting: _Setting) -> str:
    arguments: list[str] = []
    parts: dict[str, str] = {}
    inside = setting
    if not setting.catalogue.scalar[expression.function].null_propagates:
        inside = absorbing(setting)
    for place, argument in enumerate(expression.arguments):
        if isinstance(argument, LambdaExpression):
            text, named = _lambda(argument, place, absorbing(setting))
            arguments.append(text)
            parts.update(named)
        else:
            arguments.append(_argument(argument, inside))
    return call_text(
        expression,
        setting.catalogue,
        arguments,
        parts,
        exact=setting.exact,
        failing=failing(expression.arguments),
        absorbed=setting.absorbed,
        depth=setting.depth,
    )


def _argument(argument: Expression, setting: _Setting) -> str:
    return (_contained if contained_as_argument(argument) else _text)(argument, setting)


def _lambda(
    expression: LambdaExpression, place: int, setting: _Setting
) -> tuple[str, dict[str, str]]:
    """A lambda in DuckDB's syntax, and its parts under their names in templates."""
    names = [f"_p{setting.depth}_{place}_{i}" for i in range(len(expression.parameters))]
    given = {p.name: name for p, name in zip(expression.parameters, names, strict=True)}
    inner = replace(setting, parameters={**setting.parameters, **given}, depth=setting.depth + 1)
    body = _text(expression.body, inner)
    parts = {f"p{place}_{i}": name for i, name in enumerate(names)} | {f"b{place}": body}
    return f"lambda {', '.join(names)}: {body}", parts
