"""Names of a SELECT's result replaced by what they stand for.

A chain is one SELECT. What follows a `select` refers to its result, so the columns of that are
replaced by their expressions. Where this would change the meaning, it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from millstream.catalog.rules import RESERVED
from millstream.dsl.expressions import column
from millstream.functions.function import Catalogue
from millstream.model.errors import StatementError
from millstream.model.nearest import did_you_mean
from millstream_parser import print_expression
from millstream_parser import statements as s

ALL = (s.SelectItem(exp.Star()),)
"""`SELECT *`."""
_CUT = "End the query there with .through('a name'), and go on with what it returns."


@dataclass(frozen=True, slots=True)
class Selected:
    """The result of a SELECT, for what refers to it. `joined`: its sources are several, so columns
    without an alias have names that depend on them."""

    items: tuple[s.SelectItem, ...]
    functions: Catalogue
    joined: bool = False

    @property
    def columns(self) -> dict[str, exp.Expression]:
        """The tree of each column whose name is known."""
        return {name: item.expression for item in self.items if (name := self.name_of(item))}

    def name_of(self, item: s.SelectItem) -> str | None:
        """The name of an item's column, if it does not depend on anything else."""
        match item.expression:
            case _ if item.alias is not None:
                return item.alias
            case exp.Column(this=exp.Identifier(this=name)) if not self.joined:
                return str(name)
        return None

    @property
    def passes_all(self) -> bool:
        """Whether all columns of the source are in it."""
        return any(_is_star(item.expression) for item in self.items)

    def inlined(self, tree: exp.Expression) -> exp.Expression:
        """The tree over the columns of the sources. Raises StatementError."""
        return tree if self.items == ALL else with_columns(tree, self._column)

    def items_of(self, items: Sequence[s.SelectItem]) -> tuple[s.SelectItem, ...]:
        """Items over this result as items over the sources."""
        if self.items == ALL:
            return tuple(items)
        self._refuse_rows_from_functions()
        found: list[s.SelectItem] = []
        for item in items:
            if isinstance(item.expression, exp.Star):
                found += self.items
                continue
            if _is_star(item.expression):
                raise _refused(item.expression, "its sources are those of the select before it")
            tree = self.inlined(item.expression)
            alias = item.alias
            if alias is None and isinstance(item.expression, exp.Column):
                alias = _alias_for(item.expression.name, tree)
            found.append(s.SelectItem(tree, alias))
        return tuple(found)

    def _refuse_rows_from_functions(self) -> None:
        for item in self.items:
            if (name := self._calls(item.expression, rows=True)) is not None:
                raise StatementError(
                    f"The select before this makes rows by {name}, one SELECT cannot go on from it",
                    hint=_CUT,
                )

    def _column(self, written: exp.Column, bound: frozenset[str]) -> exp.Expression:
        if written.table:
            raise _refused(written, "behind a select, columns have no source")
        name, columns = str(written.name), self.columns
        found = columns.get(name)
        if found is None:
            if self.passes_all or name in RESERVED:
                return written
            hint = did_you_mean(name, columns, f"Its columns with names are {', '.join(columns)}.")
            raise _refused(written, "the select before it has no such column", hint)
        if (called := self._calls(found, rows=False)) is not None:
            raise _refused(written, f"{called} would be called again, with another result", _CUT)
        captured = bound & {str(c.name) for c in found.find_all(exp.Column)}
        if captured:
            raise _refused(
                written,
                f"{min(captured)} is a parameter of a lambda around it",
                "Give the parameter of the lambda another name.",
            )
        return found

    def _calls(self, tree: exp.Expression, *, rows: bool) -> str | None:
        """The function in a tree that makes rows, or also one that never gives the same twice."""
        for node in tree.find_all(exp.Anonymous):
            name = str(node.this)
            if name in self.functions.table:
                return name
            scalar = self.functions.scalar.get(name)
            stable = scalar is None or (
                scalar.deterministic and all(v.deterministic for v in scalar.variants)
            )
            if not rows and not stable:
                return name
        return None


def qualified(tree: exp.Expression, source: str) -> exp.Expression:
    """The tree with its columns named with their source, so that a join does not make them
    ambiguous."""

    def named(written: exp.Column, _: frozenset[str]) -> exp.Expression:
        return written if written.table else column(str(written.name), source)

    return with_columns(tree, named)


def with_columns(
    tree: exp.Expression,
    replaced: Callable[[exp.Column, frozenset[str]], exp.Expression],
    bound: frozenset[str] = frozenset(),
) -> exp.Expression:
    """The tree with its columns replaced, but not the parameters of lambdas (`bound`)."""
    match tree:
        case exp.Column(this=exp.Identifier(this=name)):
            own = not tree.table and name in bound
            return tree if own else replaced(tree, bound)
        case exp.Lambda(this=body, expressions=parameters):
            inner = bound | {str(parameter.this) for parameter in parameters}
            return exp.Lambda(this=with_columns(body, replaced, inner), expressions=parameters)
        case exp.DataType() | exp.Identifier() | exp.Literal() | exp.Boolean():
            return tree
    arguments: dict[str, object] = {}
    for key, value in tree.args.items():
        match value:
            case exp.Expression():
                arguments[key] = with_columns(value, replaced, bound)
            case list():
                arguments[key] = [with_columns(item, replaced, bound) for item in value]
            case _:
                arguments[key] = value
    return type(tree)(**arguments)


def _alias_for(name: str, tree: exp.Expression) -> str | None:
    """The alias that keeps the name of a column that was replaced by its tree."""
    same = isinstance(tree, exp.Column) and not tree.table and tree.name == name
    return None if same else name


def _is_star(tree: exp.Expression) -> bool:
    return isinstance(tree, exp.Star) or (
        isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)
    )


def _refused(tree: exp.Expression, why: str, hint: str = "") -> StatementError:
    return StatementError(f"{print_expression(tree)} cannot be used here: {why}", hint=hint)
