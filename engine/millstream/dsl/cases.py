"""CASE as a chain: `when(condition, value).when(…).otherwise(value)`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from millstream.dsl.expressions import Expr, Value, condition, tree_of


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class When(Expr):
    """CASE without ELSE: NULL where no condition is true. It is complete, and may go on."""

    def when(self, condition_: Expr | bool, value: Value) -> When:
        """A further WHEN, tried where the ones before it are not true."""
        return When(_case([*tree_of(self).args["ifs"], _branch(condition_, value)]))

    def otherwise(self, value: Value) -> Expr:
        """ELSE: the value where no condition is true."""
        return Expr(_case(tree_of(self).args["ifs"], tree_of(value)))


def when(condition_: Expr | bool, value: Value) -> When:
    """`CASE WHEN condition THEN value …`; `otherwise` is its ELSE."""
    return When(_case([_branch(condition_, value)]))


def _case(branches: list[exp.Expression], default: exp.Expression | None = None) -> exp.Case:
    return exp.Case(this=None, ifs=branches, default=default)


def _branch(condition_: Expr | bool, value: Value) -> exp.Expression:
    return exp.If(this=condition(condition_, "when"), true=tree_of(value))
