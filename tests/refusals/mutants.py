"""Statements with one error each: the name of a mutant, and its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import TypeVar

from sqlglot import exp

from millstream_parser import parse, print_statement
from millstream_parser import statements as s

Mutant = tuple[str, str]
Querying = TypeVar("Querying", s.CreateAs, s.InsertInto, s.SelectStatement)

EXPRESSIONS = {
    "unknown column": "NO_SUCH_COLUMN",
    "unknown alias": "NO_SUCH_ALIAS.X",
    "unknown function": "NO_SUCH_FUNCTION(1)",
    "too few arguments": "LEN()",
    "too many arguments": "LEN('a', 'b', 'c')",
    "wrong argument": "ABS('x')",
    "arithmetic on boolean": "1 + true",
    "arithmetic on NULL": "1 + NULL",
    "negative text": "-'x'",
    "compared types": "1 = 'x'",
    "compared with NULL": "1 = NULL",
    "order of arrays": "ARRAY[1] < ARRAY[2]",
    "order of booleans": "true < false",
    "CASE of two types": "CASE WHEN true THEN 1 ELSE 'x' END",
    "CASE branches of two types": "CASE WHEN true THEN 1 WHEN false THEN 'x' END",
    "CASE of NULL": "CASE WHEN true THEN NULL END",
    "CASE condition": "CASE WHEN 1 THEN 2 END",
    "CAST to array": "CAST('x' AS ARRAY<INTEGER>)",
    "CAST of array": "CAST(ARRAY[1] AS INTEGER)",
    "IN of other type": "1 IN (true)",
    "IN of text": "1 IN ('x')",
    "BETWEEN of other type": "1 BETWEEN 'a' AND true",
    "LIKE on number": "1 LIKE 'x'",
    "field of text": "'x'->F",
    "field of struct": "STRUCT(A := 1)->F",
    "index of number": "LEN('x')[1]",
    "index by text": "ARRAY[1]['x']",
    "empty array": "ARRAY[]",
    "empty map": "MAP()",
    "array of NULL": "ARRAY[NULL]",
    "map of NULL": "MAP('a' := NULL)",
    "mixed array": "ARRAY[1, true]",
    "struct field twice": "STRUCT(A := 1, A := 2)",
    "lambda names twice": "REDUCE(ARRAY[1], 0, (X, X) => X)",
    "lambda elsewhere": "LEN('x', X => X)",
    "NULL": "NULL",
    "AND of numbers": "1 AND 2",
    "NOT of number": "NOT 1",
    "nested aggregate": "COUNT(SUM(1))",
    "aggregate of nothing": "SUM()",
    "nested table function": "EXPLODE(EXPLODE(ARRAY[ARRAY[1]]))",
    "table function in CASE": "CASE WHEN true THEN EXPLODE(ARRAY[1]) END",
    "window bound": "WINDOWSTART",
    "decimal precision": "CAST(1 AS DECIMAL(2, 3))",
    "unknown type": "CAST(1 AS NO_SUCH_TYPE)",
}
Changes = tuple[tuple[str, s.PropertyValue | None], ...]
"""Properties by name; None takes one away."""
PROPERTIES: dict[str, Changes] = {
    "unknown property": (("NO_SUCH_PROPERTY", "x"),),
    "unknown format": (("VALUE_FORMAT", "FOO"),),
    "unknown key format": (("KEY_FORMAT", "FOO"),),
    "both formats": (("FORMAT", "JSON"), ("KEY_FORMAT", "JSON"), ("VALUE_FORMAT", "JSON")),
    "format that needs none": (("VALUE_FORMAT", "JSON"), ("VALUE_DELIMITER", ",")),
    "delimiter of two": (("VALUE_FORMAT", "DELIMITED"), ("VALUE_DELIMITER", "<~>")),
    "delimiter of none": (("VALUE_FORMAT", "DELIMITED"), ("VALUE_DELIMITER", "")),
    "no partitions": (("PARTITIONS", 0),),
    "text for partitions": (("PARTITIONS", "x"),),
    "flag for partitions": (("PARTITIONS", True),),
    "number for format": (("VALUE_FORMAT", 3),),
    "text for wrapping": (("WRAP_SINGLE_VALUE", "perhaps"),),
    "unknown timestamp": (("TIMESTAMP", "NO_SUCH_COLUMN"),),
    "timestamp format alone": (("TIMESTAMP", None), ("TIMESTAMP_FORMAT", "yyyy")),
    "key format NONE": (("KEY_FORMAT", "NONE"),),
    "value format NONE": (("VALUE_FORMAT", "NONE"),),
    "value format KAFKA": (("VALUE_FORMAT", "KAFKA"),),
    "value format DELIMITED": (("VALUE_FORMAT", "DELIMITED"),),
    "empty topic": (("KAFKA_TOPIC", ""),),
}
SOURCE_PROPERTIES: dict[str, Changes] = {
    "window size alone": (("WINDOW_SIZE", "10 SECONDS"),),
    "window without size": (("WINDOW_TYPE", "TUMBLING"),),
    "session with size": (("WINDOW_TYPE", "SESSION"), ("WINDOW_SIZE", "10 SECONDS")),
    "unknown window": (("WINDOW_TYPE", "ROUND"),),
    "unit of window": (("WINDOW_TYPE", "HOPPING"), ("WINDOW_SIZE", "30 BOBS")),
    "number of window": (("WINDOW_TYPE", "HOPPING"), ("WINDOW_SIZE", "x SECONDS")),
    "words of window": (("WINDOW_TYPE", "HOPPING"), ("WINDOW_SIZE", "SECONDS")),
    "window of nothing": (("WINDOW_TYPE", "HOPPING"), ("WINDOW_SIZE", "0 SECONDS")),
}
_SECOND, _MINUTE, _NOTHING = (
    s.Duration(1, "SECONDS"), s.Duration(1, "MINUTES"), s.Duration(0, "SECONDS")
)  # fmt: skip
WINDOWS = {
    "advance over size": s.WindowClause("HOPPING", _SECOND, advance=_MINUTE),
    "advance of nothing": s.WindowClause("HOPPING", _SECOND, advance=_NOTHING),
    "size of nothing": s.WindowClause("TUMBLING", _NOTHING),
    "short retention": s.WindowClause("TUMBLING", _MINUTE, retention=_SECOND),
}


def mutants(statement: s.Statement) -> Iterator[Mutant]:
    """Everything made of one statement; those that would be the statement itself are left out."""
    match statement:
        case s.CreateSource():
            made = _of_source(statement)
        case s.CreateAs():
            made = _of_query(statement)
        case s.InsertInto():
            made = _of_query(statement)
        case s.SelectStatement(query) if query is not None:
            made = _of_query(statement)
        case _:
            return
    original = print_statement(statement)
    for name, mutant in made:
        text = print_statement(mutant)
        if text != original:
            yield name, text


def cut(text: str) -> Iterator[Mutant]:
    """A statement without one of its words."""
    words = text.split(" ")
    for place in range(0, len(words), max(1, len(words) // 12)):
        yield f"without {words[place]}", " ".join(words[:place] + words[place + 1 :])


def _of_query(statement: Querying) -> Iterator[tuple[str, s.Statement]]:
    query = statement.query
    assert query is not None
    for name, changed in _queries(query):
        yield name, replace(statement, query=changed)
    if isinstance(statement, s.SelectStatement):
        return
    yield "LIMIT", replace(statement, query=replace(query, limit=1))
    if isinstance(statement, s.CreateAs):
        other = "TABLE" if statement.kind == "STREAM" else "STREAM"
        yield f"made a {other}", replace(statement, kind=other)
        yield "name taken", replace(statement, name=query.source.name)
        for name, given in PROPERTIES.items():
            yield name, replace(statement, properties=_with(statement.properties, given))


def _queries(query: s.Query) -> Iterator[tuple[str, s.Query]]:
    items, first = query.items, query.items[0]
    yield "unknown source", replace(query, source=s.AliasedSource("NO_SUCH_SOURCE"))
    for name, text in EXPRESSIONS.items():
        tree = expression(text)
        yield f"{name} in SELECT", replace(query, items=(*items, s.SelectItem(tree, "MUTANT")))
        yield f"{name} in WHERE", replace(query, where=tree)
        yield f"{name} in GROUP BY", replace(query, group_by=(*query.group_by, tree))
        yield f"{name} in HAVING", replace(query, having=tree)
        if not query.group_by:
            yield f"{name} in PARTITION BY", replace(query, partition_by=(tree,))
    yield "aggregate beside rows", replace(query, items=(*items, _item("COUNT(*)", "MUTANT")))
    yield "aggregate in WHERE", replace(query, where=expression("COUNT(*) > 1"))
    yield "aggregate in GROUP BY", replace(query, group_by=(expression("SUM(1)"),))
    yield "aggregate in PARTITION BY", replace(query, partition_by=(expression("SUM(1)"),))
    yield "table function in WHERE", replace(query, where=expression("EXPLODE(ARRAY[1]) = 1"))
    yield "table function", replace(query, items=(*items, _item("EXPLODE(ARRAY[1])", "MUTANT")))
    yield "HAVING alone", replace(query, having=expression("1 = 1"), group_by=())
    yield "no GROUP BY", replace(query, group_by=())
    yield "grouped twice", replace(query, group_by=query.group_by * 2)
    yield "EMIT FINAL", replace(query, emit="FINAL", window=None)
    yield "only a constant", replace(query, items=(_item("1", "MUTANT"),))
    yield "first item only", replace(query, items=items[:1])
    yield "without first item", replace(query, items=items[1:] or items)
    yield "item twice", replace(query, items=(*items, first))
    yield "name twice", replace(query, items=(*items, _item("1", "M"), _item("2", "M")))
    yield "reserved name", replace(query, items=(*items, _item("1", "ROWTIME")))
    yield "star twice", replace(query, items=(s.SelectItem(exp.Star()),) * 2)
    star = exp.Column(this=exp.Star(), table=exp.to_identifier("NO_SUCH_ALIAS"))
    yield "star of nothing", replace(query, items=(s.SelectItem(star),))
    dotted = exp.Dot(this=expression("'x'"), expression=exp.Star())
    yield "star of text", replace(query, items=(s.SelectItem(dotted),))
    for name, window in WINDOWS.items():
        yield name, replace(query, window=window)
    yield "window", replace(query, window=s.WindowClause("TUMBLING", _SECOND))
    yield from _joins(query)


def _joins(query: s.Query) -> Iterator[tuple[str, s.Query]]:
    condition = expression("A.X = B.X")
    for kind in ("INNER", "LEFT", "RIGHT", "FULL"):
        itself = s.Join(kind, s.AliasedSource(query.source.name, "AGAIN"), condition)
        yield f"self join {kind}", replace(query, joins=(*query.joins, itself))
    unknown = s.Join("INNER", s.AliasedSource("NO_SUCH_SOURCE"), condition)
    yield "join with unknown", replace(query, joins=(*query.joins, unknown))
    for place, join in enumerate(query.joins):
        others = [
            ("kind of join", replace(join, kind="FULL" if join.kind != "FULL" else "LEFT")),
            ("RIGHT join", replace(join, kind="RIGHT")),
            ("join on nothing", replace(join, condition=expression("1 = 1"))),
            ("join on a text", replace(join, condition=expression("'x'"))),
            ("join on unknown", replace(join, condition=expression("NO_COLUMN = NO_OTHER"))),
            ("join on an alias", replace(join, condition=expression("NO_ALIAS.X = NO_ALIAS.Y"))),
            ("join on two", replace(join, condition=exp.And(
                this=join.condition.copy(), expression=join.condition.copy()))),
            ("join on NULL", replace(join, condition=exp.EQ(
                this=join.condition.this.copy(), expression=exp.Null()))),
            ("join on not", replace(join, condition=exp.NEQ(
                this=join.condition.this.copy(), expression=join.condition.expression.copy()))),
            ("join on cast", replace(join, condition=exp.EQ(
                this=exp.Cast(this=join.condition.this.copy(), to=typed("BYTES")),
                expression=join.condition.expression.copy()))),
            ("no WITHIN", replace(join, within=None)),
            ("WITHIN", replace(join, within=s.Within(_SECOND, _SECOND))),
            ("WITHIN of nothing", replace(join, within=s.Within(_NOTHING, _NOTHING))),
        ]  # fmt: skip
        for name, other in others:
            joins = (*query.joins[:place], other, *query.joins[place + 1 :])
            yield name, replace(query, joins=joins)


def _of_source(statement: s.CreateSource) -> Iterator[tuple[str, s.Statement]]:
    given, elements = statement.properties, statement.elements
    number = typed("INT")
    for name, added in (PROPERTIES | SOURCE_PROPERTIES).items():
        yield name, replace(statement, properties=_with(given, added))
    for word in ("KAFKA_TOPIC", "VALUE_FORMAT"):
        left = tuple(item for item in given if item[0] != word)
        yield f"no {word}", replace(statement, properties=left)
    yield "no columns", replace(statement, elements=())
    yield "replaced", replace(statement, or_replace=True, read_only=True)
    roles = (s.ColumnRole.KEY, s.ColumnRole.PRIMARY_KEY)
    keyless = tuple(replace(e, role=s.ColumnRole.VALUE) for e in elements)
    yield "no key", replace(statement, elements=keyless)
    for element in elements[:1]:
        yield "column twice", replace(statement, elements=(*elements, element))
    for name in ("ROWTIME", "ROWPARTITION", "WINDOWSTART"):
        yield f"column {name}", replace(statement, elements=(*elements, s.Element(name, number)))
    for role in roles:
        key = s.Element("MUTANT", typed("MAP<STRING, INT>"), role)
        yield f"map as {role.value}", replace(statement, elements=(key, *elements))
        two = s.Element("MUTANT", number, role)
        yield f"one more {role.value}", replace(statement, elements=(two, *elements))
    headers = s.Element("MUTANT", number, s.ColumnRole.HEADERS)
    yield "headers of numbers", replace(statement, elements=(*elements, headers))
    header = s.Element("MUTANT", number, s.ColumnRole.HEADER, "h")
    yield "header of a number", replace(statement, elements=(*elements, header))


def _with(given: s.Properties, changes: Changes) -> s.Properties:
    names = {name for name, _ in changes}
    added = tuple((name, value) for name, value in changes if value is not None)
    return (*(item for item in given if item[0] not in names), *added)


def _item(text: str, alias: str) -> s.SelectItem:
    return s.SelectItem(expression(text), alias)


@cache
def expression(text: str) -> exp.Expression:
    """The tree of an expression, without its place in a text."""
    (statement,) = parse(f"SELECT {text} FROM X EMIT CHANGES;")
    assert isinstance(statement, s.SelectStatement) and statement.query is not None
    tree = statement.query.items[0].expression.copy()
    for node in tree.walk():
        node.meta.pop("span", None)
    return tree


def typed(text: str) -> exp.DataType:
    """The tree of a type."""
    tree = expression(f"CAST(NULL AS {text})")
    kind = tree.args["to"]
    assert isinstance(kind, exp.DataType)
    return kind
