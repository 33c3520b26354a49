"""The key of a query's result, and the errors for a SELECT list without it."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.model.errors import StatementError
from millstream.model.expressions import Expression
from millstream.plan import wordings


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A key column of the result: its value, and the expressions that are equivalent to it.

    `matches` are (expression, text for messages) pairs, the preferred one first: an item of the
    SELECT list that equals one of them is this key. `name` is for results that may leave it out.
    """

    name: str
    value: Expression
    matches: tuple[tuple[Expression, str], ...]


@dataclass(frozen=True, slots=True)
class Key:
    """The key of the relation below the projection.

    `noun` describes its origin in messages; `table` is the left one of a foreign-key join.
    """

    columns: tuple[KeyColumn, ...]
    noun: str = "key column"
    synthetic: bool = False
    table: str = ""


def repeated_key(column: KeyColumn, names: list[str], key: Key) -> StatementError:
    """The error for a projection that has a key column under several names."""
    if key.noun == "grouping expression":
        listed = enumerate_words([f"`{name}`" for name in names], "and")
        return wordings.KEY_SELECTED_TWICE(listed=listed)
    return wordings.KEY_SELECTED_UNDER_NAMES(
        column=column.name, names=enumerate_words(sorted(names), "and")
    )


def missing_key(key: Key, missing: list[KeyColumn], sink: str) -> StatementError:
    """The error for a projection without some key columns; `sink` is what it would have created."""
    if key.table:
        return _missing_primary_key(key.table, missing)
    columns = missing if key.noun == "grouping expression" else key.columns
    texts = [text for column in columns for _, text in column.matches]
    word = "or" if key.noun == "join expression" else "and"
    example = texts[:1] if word == "or" else texts
    synthetic = (
        f"\n{texts[0]} was added as a synthetic key column because the join criteria did not match "
        "any source column. This expression must be included in the projection and may be aliased."
    )
    return wordings.KEY_NOT_SELECTED(
        sink=sink,
        what=key.noun,
        plural="s" if len(texts) > 1 else "",
        keys=enumerate_words(texts, word),
        example=", ".join(example),
        synthetic=synthetic if key.synthetic else "",
    )


def _missing_primary_key(table: str, missing: list[KeyColumn]) -> StatementError:
    plural = "s" if len(missing) > 1 else ""
    listed = ", ".join(f"`{text}`" for column in missing for _, text in column.matches)
    return wordings.PRIMARY_KEY_NOT_SELECTED(plural=plural, table=table, listed=listed)


def enumerate_words(words: list[str], conjunction: str) -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {conjunction} {words[-1]}"
