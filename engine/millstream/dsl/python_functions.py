"""Functions of Python in chains: they become functions of the dialect, over the columns that their
parameters name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any, TypeAlias, cast, get_origin, get_type_hints

from sqlglot import exp

from millstream.dsl.expressions import Expr, Value, column, condition
from millstream.dsl.statements import Connection
from millstream.functions.function import ScalarFunction, TableFunction
from millstream.functions.signatures import parse_signature
from millstream.functions.user import udf, udtf
from millstream.model.names import folded

PythonFunction: TypeAlias = Callable[..., Any] | ScalarFunction | TableFunction
"""A function with annotations, or what `udf` and `udtf` make of one."""
ValueOrFunction: TypeAlias = "Value | PythonFunction"
Condition: TypeAlias = "Expr | bool | PythonFunction"
ColumnOrFunction: TypeAlias = "Expr | str | PythonFunction"


def called(connection: Connection, given: object) -> Expr | None:
    """The call of a function of Python with the columns that its parameters name; the call has the
    name of the function, which is registered under it. None for anything that is no such function.

    Raises TypeError for a function without annotations, StatementError if there is another one of
    its name."""
    match given:
        case ScalarFunction() | TableFunction():
            made = given
        case FunctionType() | MethodType():
            made = udtf(given) if _makes_rows(given) else udf(given)
        case _:
            return None
    parameters = parse_signature(made.signatures[0]).parameters
    if not all(each.name for each in parameters):
        raise TypeError(
            f"The parameters of {made.name} have no names, which say the columns: write fn.call("
            f"{made.name!r}, col(…)) instead"
        )
    connection.register(made)
    columns = [column(folded(each.name, "A parameter")) for each in parameters]
    return Expr(exp.Anonymous(this=made.name, expressions=columns), name=made.name)


def _makes_rows(function: Callable[..., Any]) -> bool:
    try:
        origin = get_origin(get_type_hints(function).get("return"))
    except NameError:
        return False
    return origin is Iterable or (isinstance(origin, type) and issubclass(origin, Iterator))


def with_calls(connection: Connection, columns: Iterable[ColumnOrFunction]) -> list[Expr | str]:
    """Columns, with calls in the place of functions."""
    made = [(called(connection, each), each) for each in columns]
    return [cast("Expr | str", each) if call is None else call for call, each in made]


def values_with_calls(
    connection: Connection, named: Mapping[str, ValueOrFunction]
) -> dict[str, Value]:
    """Named values, with calls in the place of functions."""
    return {name: _value(connection, given) for name, given in named.items()}


def condition_of(connection: Connection, given: Condition, what: str) -> exp.Expression:
    """The tree of a condition: an expression, or a function that returns a bool."""
    return condition(cast("Expr | bool", _value(connection, given)), what)


def _value(connection: Connection, given: ValueOrFunction) -> Value:
    made = called(connection, given)
    return cast("Value", given) if made is None else Expr(made.node)
