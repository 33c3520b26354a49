"""Expressions whose failure is NULL: the texts of exact programs.

Calls of Python functions stand outside of TRY, each computed before the rest (the body of a lambda
over its value): where anything inside of TRY raises, DuckDB computes all of it again row by row,
which for a call of Python takes a hundred microseconds a row. What is called is the function's
attempt (`functions.attempts`), whose failure is then one of the expression wherever the call
counts, and NULL where a call fails by itself (`failures.contained_parts`). Calls that read a
parameter of a lambda stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from millstream.functions.attempts import FAILED, VALUE
from millstream.functions.function import Catalogue
from millstream.model.expressions import (
    Attempt,
    Call,
    ColumnRef,
    Expression,
    LambdaExpression,
    LambdaRef,
    Literal,
    children,
    walk,
)
from millstream.operators.expressions import compile_argument, compile_expression
from millstream.operators.failures import cannot_raise, contained_parts, looked_at
from millstream.operators.scalar import attempt_text, in_python, is_deterministic, is_volatile
from millstream.operators.sql import guarded, struct
from millstream.plan.rewrite import substitute


def guarded_text(
    expression: Expression,
    catalogue: Catalogue,
    columns: Callable[[str], str],
    *,
    compiled: Callable[..., str] = compile_expression,
    shape: str = "%s",
    contained: bool = True,
) -> str:
    """`shape` with the exact text of an expression (made by `compiled`), NULL where that fails:
    unless `contained`, where any part does.
    """
    hoisting = _Hoisting(catalogue, columns, contained)
    (rest,), failures = hoisting.out_of([expression])
    text = shape % compiled(
        rest, catalogue, exact=True, columns=hoisting.lookup, contained=contained
    )
    text = _unless(failures, _tried(text, [rest], catalogue))
    for level in reversed(hoisting.levels):
        text = level.around(text)
    return text


def _tried(text: str, expressions: Sequence[Expression], catalogue: Catalogue) -> str:
    """The text under TRY if one of its expressions needs that. DuckDB has no TRY for calls that
    give another value each time, such as RANDOM(); some read parameters of lambdas."""
    if all(isinstance(expression, ColumnRef | Literal) for expression in expressions):
        return text
    if any(is_volatile(expression, catalogue) for expression in expressions):
        return text
    return guarded(text)


def _unless(failures: Sequence[str], text: str) -> str:
    if not failures:
        return text
    return f"CASE WHEN {' OR '.join(failures)} THEN NULL ELSE {text} END"


@dataclass(frozen=True, slots=True)
class _Level:
    """Calls that need nothing but what levels below have computed: one struct of the arguments of
    those whose arguments may fail (each a struct of its own, NULL where one does), one of the
    calls."""

    number: int
    arguments: dict[str, str] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)

    def around(self, text: str) -> str:
        """The text of what may read both."""
        for name, fields in ((self.calls_name, self.calls), (self.given_name, self.arguments)):
            if fields:
                text = f"list_transform([{struct(list(fields.items()))}], lambda {name}: {text})[1]"
        return text

    @property
    def given_name(self) -> str:
        return f"_given{self.number}"

    @property
    def calls_name(self) -> str:
        return f"_called{self.number}"


@dataclass(frozen=True, slots=True)
class _Computed:
    """A call that was computed before: the names of its value and of its attempt, the conditions
    under which it failed (none: it cannot), and its level."""

    value: str
    attempt: str
    failures: tuple[str, ...]
    level: int


class _Hoisting:
    """Takes calls out of expressions."""

    def __init__(
        self, catalogue: Catalogue, columns: Callable[[str], str], contained: bool
    ) -> None:
        self.levels: list[_Level] = []
        self._catalogue = catalogue
        self._contained = contained
        self._columns = columns
        self._texts: dict[str, str] = {}
        self._computed: dict[str, _Computed] = {}
        self._known: dict[Call, _Computed] = {}

    def lookup(self, name: str) -> str:
        """The text of a column or of what was computed before."""
        return self._texts[name] if name in self._texts else self._columns(name)

    def out_of(
        self, expressions: Sequence[Expression], around: Call | None = None
    ) -> tuple[list[Expression], list[str]]:
        """The expressions (all of a query's, or the arguments of the call `around`) over what is
        computed before, and when one of them fails by that alone; what they do not always look at
        fails where they do."""
        apart = set(map(id, self._apart(expressions, around)))
        always = {
            id(part)
            for item in expressions
            if id(item) not in apart
            for part in looked_at(item, contained=self._contained)
        }
        failures: dict[str, None] = {}

        def replaced(part: Expression) -> Expression | None:
            if not isinstance(part, Call) or not self._moves(part):
                return None
            computed = self._before(part)
            if id(part) in apart:
                return ColumnRef(computed.value, part.type)
            if computed.failures and id(part) not in always:
                return Attempt(computed.attempt, part.type)
            failures.update(dict.fromkeys(computed.failures))
            return ColumnRef(computed.value, part.type)

        return [substitute(item, replaced) for item in expressions], list(failures)

    def _apart(
        self, expressions: Sequence[Expression], around: Call | None
    ) -> Iterator[Expression]:
        """The parts that are NULL by themselves where they fail."""
        if not self._contained:
            return
        if around is not None:
            yield from contained_parts(around)
        for expression in expressions:
            for part in walk(expression):
                yield from contained_parts(part)

    def _moves(self, call: Call) -> bool:
        steady = is_deterministic(call, self._catalogue)
        return (not steady or in_python(call, self._catalogue)) and not _parameters(call)

    def _before(self, call: Call) -> _Computed:
        """Has a call computed before; equal ones once, unless they give another value each time."""
        if call in self._known:
            return self._known[call]
        arguments, failures = self.out_of(call.arguments, call)
        used = (part.name for item in arguments for part in walk(item) if _is_name(part))
        number = 1 + max((self._computed[n].level for n in used if n in self._computed), default=-1)
        if number == len(self.levels):
            self.levels.append(_Level(number))
        level, name = self.levels[number], f"c{len(self._texts)}"
        missing: tuple[str, ...] = ()
        if failures or not all(map(cannot_raise, arguments)):
            missing = (f"{level.given_name}.{name} IS NULL",)
            arguments = self._given(level, name, arguments, failures)
        computed = self._called(level, name, replace(call, arguments=tuple(arguments)), missing)
        if is_deterministic(call, self._catalogue):
            self._known[call] = computed
        return computed

    def _given(
        self, level: _Level, name: str, arguments: Sequence[Expression], failures: Sequence[str]
    ) -> list[Expression]:
        """The arguments of a call, computed before it: all or none."""
        fields: list[tuple[str, str]] = []
        given: list[Expression] = []
        for place, argument in enumerate(arguments):
            if isinstance(argument, Literal):
                given.append(argument)
                continue
            fields.append((f"a{place}", self._text(argument)))
            known = f"$given {name} {place}"
            self._texts[known] = f"{level.given_name}.{name}.a{place}"
            given.append(ColumnRef(known, argument.type))
        text = _tried(struct(fields), arguments, self._catalogue)
        level.arguments[name] = _unless(failures, text)
        return given

    def _called(self, level: _Level, name: str, call: Call, missing: tuple[str, ...]) -> _Computed:
        value, failures = f"{level.calls_name}.{name}", missing
        if is_deterministic(call, self._catalogue):
            texts = [self._text(argument) for argument in call.arguments]
            made = attempt_text(call, self._catalogue, texts)
            failures = (*missing, f'{value}."{FAILED}"')
            value = f'{value}."{VALUE}"'
        else:
            made = self._text(call)
        level.calls[name] = _unless(missing, made)
        refused = f"CASE WHEN {' OR '.join(failures)} THEN 'a function failed' ELSE 'true' END"
        computed = _Computed(f"$computed {name}", f"$attempt {name}", failures, level.number)
        self._texts[computed.value] = value
        self._texts[computed.attempt] = f"CASE WHEN CAST({refused} AS BOOLEAN) THEN {value} END"
        self._computed[computed.value] = self._computed[computed.attempt] = computed
        return computed

    def _text(self, expression: Expression) -> str:
        return compile_argument(
            expression, self._catalogue, columns=self.lookup, contained=self._contained
        )


def _is_name(part: Expression) -> TypeGuard[ColumnRef | Attempt]:
    return isinstance(part, ColumnRef | Attempt)


def _parameters(expression: Expression) -> set[str]:
    """The parameters of lambdas around an expression that it reads."""
    match expression:
        case LambdaRef(name):
            return {name}
        case LambdaExpression(parameters, body):
            return _parameters(body) - {parameter.name for parameter in parameters}
        case _:
            return set[str]().union(*map(_parameters, children(expression)))
