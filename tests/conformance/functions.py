"""The functions that the suite's own runner registers, through the public API.

The description of the cases defines each function: some show which overload was chosen, some fail
on purpose, the aggregates add numbers and lengths of strings.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from millstream import udaf, udf, udtf
from millstream.functions.user import UserFunction

_ROW = "INTEGER, BIGINT, DOUBLE, BOOLEAN, STRING, DECIMAL, STRUCT<A STRING>"


def _named(text: str) -> Callable[..., str]:
    return lambda *_: text


def _fail(*_: Any) -> Any:
    raise ValueError("told to fail")


def _when(result: Any, evaluate: bool) -> Any:
    return result if evaluate else _fail()


def _throw_if(wanted: bool) -> int:
    return _fail() if wanted else 0


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return f"Struct{{{','.join(f'{name}={item}' for name, item in value.items())}}}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def scalars() -> Iterator[UserFunction]:
    """Functions of one row."""
    overloads = {
        "INTEGER, STRING": "doStuffIntString",
        "BIGINT, STRING": "doStuffLongString",
        "BIGINT, BIGINT, STRING": "doStuffLongLongString",
        "BIGINT...": "doStuffLongVarargs",
    }
    for parameters, text in overloads.items():
        yield udf("TEST_UDF", f"{parameters} -> STRING", _named(text), nulls=True)
    yield udf("TEST_UDF", "STRUCT<A STRING> -> STRING", lambda row: row and row["A"], nulls=True)
    yield udf("TEST_UDF", "-> STRUCT<A STRING>", lambda: {"A": "foo"}, nulls=True)
    yield udf("TOSTRUCT", "STRING -> STRUCT<A STRING>", lambda text: {"A": text}, nulls=True)
    yield udf("WHENCONDITION", "BOOLEAN, BOOLEAN -> BOOLEAN", _when)
    yield udf("WHENRESULT", "INTEGER, BOOLEAN -> INTEGER", _when)
    yield udf("BAD_UDF", "INTEGER -> INTEGER", _fail)
    yield udf("BAD_UDF", "BOOLEAN -> INTEGER", _throw_if)
    calls = itertools.count()
    yield udf(
        "BAD_UDF",
        "STRING -> STRING",
        lambda text: None if next(calls) % 2 == 0 else text,
        nulls=True,
        deterministic=False,
    )


def tables() -> Iterator[UserFunction]:
    """Functions from one row to many."""
    yield udtf("THROWING_UDTF", "BOOLEAN -> BOOLEAN", lambda wanted: [bool(_throw_if(wanted))])
    for kind in ("INTEGER", "BIGINT", "DOUBLE", "BOOLEAN", "STRING", "STRUCT<A STRING>"):
        yield udtf("TEST_UDTF", f"{kind} -> {kind}", lambda value: [value])
    yield udtf("TEST_UDTF", "DECIMAL -> DECIMAL(30, 10)", lambda value: [value])
    kinds = ("INTEGER", "BIGINT", "DOUBLE", "BOOLEAN", "STRING", "DECIMAL", "STRUCT<A STRING>")
    arrays = ", ".join(f"ARRAY<{kind}>" for kind in kinds)
    maps = ", ".join(f"MAP<STRING, {kind}>" for kind in kinds)
    yield udtf("TEST_UDTF", f"{', '.join(kinds)} -> STRING", lambda *row: map(_text, row))
    yield udtf("TEST_UDTF", f"{arrays} -> STRING", lambda *row: [_text(item[0]) for item in row])
    yield udtf(
        "TEST_UDTF",
        f"{maps} -> STRING",
        lambda *row: [_text(next(iter(dict(item).values()))) for item in row],
    )


def _worth(value: Any) -> int:
    return 0 if value is None else len(value) if isinstance(value, str) else int(value)


def _add(state: int, *values: Any) -> int:
    return state + sum(map(_worth, values))


def _subtract(state: int, value: Any) -> int:
    return state - _worth(value)


def _start(*constants: Any) -> int:
    return sum(map(_worth, constants))


def _fields(state: dict[str, int], row: dict[str, int | None] | None) -> dict[str, int]:
    return {name: total + _worth((row or {}).get(name)) for name, total in state.items()}


def _complete(state: list[Any], first: Any, *rest: Any) -> list[Any]:
    return state if first is None or None in rest else [*state, first]


def aggregates() -> Iterator[UserFunction]:
    """Functions of many rows."""
    yield udaf("TEST_UDAF", "BIGINT -> BIGINT", initial=_start, add=_add, remove=_subtract)
    yield udaf("TEST_UDAF", "INTEGER -> BIGINT", initial=_start, add=_add, remove=_subtract)
    yield udaf(
        "TEST_UDAF",
        "DOUBLE -> DOUBLE",
        initial=lambda: 0.0,
        add=lambda total, value: total + (value or 0.0),
    )
    yield udaf("TEST_UDAF", "STRING, LITERAL STRING -> BIGINT", initial=_start, add=_add)
    yield udaf(
        "TEST_UDAF",
        "STRUCT<A INTEGER, B INTEGER> -> STRUCT<A INTEGER, B INTEGER>",
        initial=lambda: {"A": 0, "B": 0},
        add=_fields,
        state="STRUCT<A INTEGER, B INTEGER>",
    )
    for name, signature in (
        ("VAR_ARG", "BIGINT, STRING... -> BIGINT"),
        ("MULTI_ARG", "BIGINT, STRING, LITERAL INTEGER, LITERAL STRING... -> BIGINT"),
        ("MID_VAR_ARG", "BIGINT, STRING..., LITERAL INTEGER, LITERAL INTEGER -> BIGINT"),
        (
            "FOUR_ARG",
            "BIGINT, STRING, STRING, STRING, LITERAL INTEGER, LITERAL STRING... -> BIGINT",
        ),
        (
            "FIVE_ARG",
            "BIGINT, STRING, STRING, STRING, INTEGER, LITERAL INTEGER, LITERAL STRING... -> BIGINT",
        ),
    ):
        yield udaf(name, signature, initial=_start, add=_add)
    yield udaf("OBJ_COL_ARG", "INTEGER, ANY... -> ARRAY<INTEGER>", initial=list, add=_complete)
    yield udaf("GENERIC_VAR_ARG", "A, B, C... -> ARRAY<A>", initial=list, add=_complete)


def functions() -> tuple[UserFunction, ...]:
    """All of them, those that count their calls at the beginning."""
    return (*scalars(), *tables(), *aggregates())
