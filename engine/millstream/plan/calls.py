"""Typing of function calls: scalar, aggregate and table functions, with lambdas."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from millstream.functions.resolution import Argument, LambdaArity, Resolution, resolve
from millstream.model import refusals
from millstream.model.errors import StatementError
from millstream.model.expressions import (
    AggregateCall,
    Call,
    ColumnRef,
    Expression,
    LambdaExpression,
    LambdaRef,
    Literal,
    TableCall,
    Value,
)
from millstream.model.nearest import did_you_mean
from millstream.model.other_dialects import function_hint
from millstream.model.types import BIGINT, Lambda, SqlType
from millstream.plan import wordings
from millstream.plan.literals import coerce
from millstream.plan.quoting import quoted
from millstream.plan.scope import Scope, location, resolve_column

Typer = Callable[[exp.Expression, Scope], Expression]


def type_call(name: str, trees: Sequence[exp.Expression], scope: Scope, typer: Typer) -> Expression:
    """A call of the function of that name; raises StatementError for unknown functions, functions
    that are not allowed here, and arguments that match no signature."""
    if name in scope.catalogue.aggregate:
        _refuse_nested(name, trees, scope)
        return _aggregate(name, trees, scope, typer)
    if name in scope.catalogue.table:
        return _table(name, trees, scope, typer)
    function = scope.catalogue.scalar.get(name)
    if function is None:
        listed = "SHOW FUNCTIONS lists them."
        hint = function_hint(name) or did_you_mean(name, scope.catalogue.named(), listed)
        raise wordings.FUNCTION_MISSING(name=name, hint=hint)
    trees = [tree for tree in trees if not isinstance(tree, exp.Star)]
    resolution, arguments = _resolved(
        name.lower(),
        [variant.signature for variant in function.variants],
        trees,
        scope,
        typer,
        [variant.result for variant in function.variants],
    )
    if function.check is not None:
        constants = [item.value if isinstance(item, Literal) else None for item in arguments]
        try:
            function.check(constants)
        except ValueError as error:
            raise wordings.CALL_IMPOSSIBLE(name=name.lower(), error=error) from error
    return Call(name, resolution.variant, arguments, resolution.result)


def _resolved(
    shown: str,
    signatures: Sequence[str],
    trees: Sequence[exp.Expression],
    scope: Scope,
    typer: Typer,
    results: Sequence[Callable[[Sequence[SqlType]], SqlType] | None] = (),
) -> tuple[Resolution, tuple[Expression, ...]]:
    typed = [None if isinstance(tree, exp.Lambda) else typer(tree, scope) for tree in trees]
    shapes: list[Argument] = [
        LambdaArity(len(tree.expressions)) if expression is None else expression.type
        for tree, expression in zip(trees, typed, strict=True)
    ]

    def body(place: int, parameters: tuple[SqlType, ...]) -> SqlType:
        return _lambda(trees[place], parameters, scope, typer).type

    resolution = resolve(shown, signatures, shapes, bodies=body, results=results)
    arguments = tuple(
        _argument(tree, expression, kind, scope, typer)
        for tree, expression, kind in zip(trees, typed, resolution.parameters, strict=True)
    )
    for place, literal in enumerate(resolution.literals):
        if literal and not isinstance(arguments[place], Literal):
            raise _no_literal(shown, place, trees[place], scope)
    return resolution, arguments


def _argument(
    tree: exp.Expression,
    expression: Expression | None,
    kind: SqlType,
    scope: Scope,
    typer: Typer,
) -> Expression:
    if expression is not None:
        return coerce(expression, kind)
    assert isinstance(kind, Lambda)
    made = _lambda(tree, kind.parameters, scope, typer)
    return LambdaExpression(made.parameters, coerce(made.body, kind.result))


def _lambda(
    tree: exp.Expression, parameters: tuple[SqlType, ...], scope: Scope, typer: Typer
) -> LambdaExpression:
    names = [parameter.name for parameter in tree.expressions]
    if len(set(names)) != len(names):
        raise wordings.LAMBDA_ARGUMENTS_TWICE(names=", ".join(names))
    refs = tuple(map(LambdaRef, names, parameters))
    return LambdaExpression(refs, typer(tree.this, scope.within(refs)))


def _aggregate(
    name: str, trees: Sequence[exp.Expression], scope: Scope, typer: Typer
) -> AggregateCall:
    if not scope.aggregates:
        raise refusals.AGGREGATE_MISPLACED(clause=scope.clause, function=name)
    function = scope.catalogue.aggregate[name]
    inner = scope.inside_call()
    signatures = [variant.signature for variant in function.variants]
    given = [tree for tree in trees if not isinstance(tree, exp.Star)]
    if not given:
        return _over_rows(name, signatures, inner)
    results = [variant.result_type for variant in function.variants]
    resolution, arguments = _resolved(name, signatures, given, inner, typer, results)
    constants = max(function.variants[resolution.variant].constants, sum(resolution.literals), 0)
    split = len(arguments) - constants
    values: list[Value] = []
    for place in range(split, len(arguments)):
        argument = arguments[place]
        if not isinstance(argument, Literal):
            raise _no_literal(name, place, given[place], scope)
        values.append(argument.value)
    return AggregateCall(
        name, resolution.variant, arguments[:split], tuple(values), resolution.result
    )


def _refuse_nested(name: str, trees: Sequence[exp.Expression], scope: Scope) -> None:
    calls = [call for tree in trees for call in tree.find_all(exp.Anonymous)]
    if scope.aggregates and any(call.name.upper() in scope.catalogue.aggregate for call in calls):
        listed = ", ".join(quoted(tree, scope) for tree in trees)
        raise refusals.AGGREGATES_NESTED(call=f"{name}({listed})")


def _over_rows(name: str, signatures: Sequence[str], scope: Scope) -> AggregateCall:
    """`f(*)` and `f()`: the aggregate of ROWTIME, which is never NULL; for COUNT any constant."""
    argument: Expression = Literal(1, BIGINT)
    if name != "COUNT":
        column = resolve_column(exp.Column(this=exp.to_identifier("ROWTIME")), scope)
        assert isinstance(column, ColumnRef)
        argument = column
    resolution = resolve(name, signatures, [argument.type])
    return AggregateCall(
        name,
        resolution.variant,
        (coerce(argument, resolution.parameters[0]),),
        (),
        resolution.result,
    )


def _table(name: str, trees: Sequence[exp.Expression], scope: Scope, typer: Typer) -> TableCall:
    if not scope.tables:
        hint = (
            "They stand in the SELECT list of a query on a stream, outside of other table "
            "functions and aggregates."
        )
        where = "this place" if scope.clause == "SELECT" else scope.clause
        raise refusals.TABLE_FUNCTION_MISPLACED(clause=where, function=name, hint=hint)
    for call in (call for tree in trees for call in tree.find_all(exp.Anonymous)):
        if call.name.upper() in scope.catalogue.table:
            raise refusals.TABLE_FUNCTIONS_NESTED(function=call.name.upper())
    signatures = list(scope.catalogue.table[name].signatures)
    inner = scope.inside_call()
    resolution, arguments = _resolved(name.lower(), signatures, trees, inner, typer)
    return TableCall(name, resolution.variant, arguments, resolution.result)


def _no_literal(name: str, place: int, tree: exp.Expression, scope: Scope) -> StatementError:
    return wordings.CONSTANT_NEEDED(
        number=place + 1,
        name=name,
        expression=quoted(tree, scope),
        span=location(tree, scope.text)[0],
    )
