"""Wrong statements about the sources that are there: INSERT, pull queries, DROP, ALTER and others.

Each is `(name, text, may)`: `may` is the reason why the statement may be accepted, "" if it may
not.
"""

from __future__ import annotations

from collections.abc import Iterator

from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Source
from millstream.model.schema import Column, SourceKind
from millstream.model.types import BOOLEAN, BYTES, STRING, Array, Map, SqlType, Struct
from tests.refusals.mutants import EXPRESSIONS

_ANY_TEXT = (BYTES, BOOLEAN)
"""Types to which CAST accepts every text."""
Wrong = tuple[str, str, str]
MISSING = "NO_SUCH_SOURCE"
ANYTHING = [
    ("drop unknown stream", f"DROP STREAM {MISSING};", ""),
    ("drop unknown table", f"DROP TABLE {MISSING};", ""),
    ("drop unknown, with its topic", f"DROP STREAM {MISSING} DELETE TOPIC;", ""),
    ("drop unknown type", "DROP TYPE NO_SUCH_TYPE;", ""),
    ("alter unknown stream", f"ALTER STREAM {MISSING} ADD COLUMN C INT;", ""),
    ("alter unknown table", f"ALTER TABLE {MISSING} ADD COLUMN C INT;", ""),
    ("insert into unknown", f"INSERT INTO {MISSING} VALUES (1);", ""),
    ("describe unknown", f"DESCRIBE {MISSING};", ""),
    ("describe unknown, extended", f"DESCRIBE {MISSING} EXTENDED;", ""),
    ("describe unknown function", "DESCRIBE FUNCTION NO_SUCH_FUNCTION;", ""),
    ("explain unknown query", "EXPLAIN NO_SUCH_QUERY;", ""),
    ("terminate unknown", "TERMINATE NO_SUCH_QUERY;", ""),
    ("pause unknown", "PAUSE NO_SUCH_QUERY;", ""),
    ("resume unknown", "RESUME NO_SUCH_QUERY;", ""),
    ("print unknown topic", "PRINT 'no-such-topic' FROM BEGINNING LIMIT 1;", ""),
    ("select from unknown", f"SELECT * FROM {MISSING};", ""),
    ("unset what is not set", "UNSET 'ksql.no.such.setting';", ""),
    ("unknown setting", "SET 'no.such.setting' = '1';", ""),
    ("wrong value of a setting", "SET 'auto.offset.reset' = 'sometimes';", ""),
    ("assert of a missing topic", "ASSERT TOPIC 'no-such-topic' TIMEOUT 0 SECONDS;", ""),
    ("assert of a topic property", "ASSERT TOPIC x WITH (NO_SUCH=1) TIMEOUT 0 SECONDS;", ""),
    ("type of unknown type", "CREATE TYPE T1 AS STRUCT<A NO_SUCH_TYPE>;", ""),
    ("connector", "CREATE SOURCE CONNECTOR C WITH ('connector.class'='x');", ""),
    ("drop of a connector", "DROP CONNECTOR C;", ""),
    ("undefine what is not defined", "UNDEFINE no_such;", "ksqlDB warns"),
]
"""Whatever is there."""


def wrong_statements(catalog: Catalog) -> Iterator[Wrong]:
    """All of them for a catalog."""
    yield from ANYTHING
    for source in catalog.sources.values():
        yield from _of_source(source)
        if source.kind is SourceKind.TABLE and source.query_id is not None:
            yield from _pulls(source, _name(source.name))
    for name in catalog.types:
        yield "type twice", f"CREATE TYPE {_name(name)} AS INT;", ""
    for query_id in catalog.queries:
        yield "pause and more", f"PAUSE {query_id}; RESUME {query_id}X;", ""


def _of_source(source: Source) -> Iterator[Wrong]:
    name, noun = _name(source.name), source.kind.value
    other = "TABLE" if noun == "STREAM" else "STREAM"
    columns = source.schema.columns
    yield "dropped as the other", f"DROP {other} {name};", ""
    yield "dropped as the other, if it exists", f"DROP {other} IF EXISTS {name};", ""
    yield "altered as the other", f"ALTER {other} {name} ADD COLUMN C INT;", ""
    some = _name(columns[0].name)
    yield "column twice", f"ALTER {noun} {name} ADD COLUMN {some} INT;", ""
    yield "columns twice", f"ALTER {noun} {name} ADD COLUMN C1 INT, ADD COLUMN C1 INT;", ""
    yield "column of unknown type", f"ALTER {noun} {name} ADD COLUMN C1 NO_SUCH_TYPE;", ""
    yield "reserved column", f"ALTER {noun} {name} ADD COLUMN ROWTIME BIGINT;", ""
    given = f"{noun} {name} (C INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON')"
    yield "name taken", f"CREATE {given.replace('(C INT)', _keyed(noun))};", ""
    yield from _inserts(source, name)


def _keyed(noun: str) -> str:
    return "(C INT PRIMARY KEY, D INT)" if noun == "TABLE" else "(C INT KEY, D INT)"


def _inserts(source: Source, name: str) -> Iterator[Wrong]:
    insert = f"INSERT INTO {name}"
    columns = source.schema.columns
    names = [_name(column.name) for column in columns]
    values = [_value(column.type) for column in columns]
    many = ", ".join([*values, "1"])
    yield "too many values", f"{insert} VALUES ({many});", ""
    yield "fewer values", f"{insert} ({', '.join([*names, 'ROWTIME'])}) VALUES (1);", ""
    yield "unknown column", f"{insert} (NO_SUCH_COLUMN) VALUES (1);", ""
    yield "column twice", f"{insert} ({names[0]}, {names[0]}) VALUES (1, 1);", ""
    for pseudo in ("ROWPARTITION", "ROWOFFSET", "WINDOWSTART"):
        yield f"value of {pseudo}", f"{insert} ({pseudo}) VALUES (1);", ""
    yield "ROWTIME is no number", f"{insert} (ROWTIME, {names[0]}) VALUES ('x', {values[0]});", ""
    yield "ROWTIME is negative", f"{insert} (ROWTIME, {names[0]}) VALUES (-1, {values[0]});", ""
    yield "subquery", f"{insert} VALUES ((SELECT 1));", ""
    for column, written in zip(columns, names, strict=True):
        for other, value in (("text", "'no such value'"), ("list", "ARRAY[MAP('a' := 1)]")):
            fits = column.type is STRING or (column.type in _ANY_TEXT and other == "text")
            fits = fits or (isinstance(column.type, Array) and other == "list")
            may = "a literal is converted as freely as by CAST" if fits else ""
            yield f"{other} as value", f"{insert} ({written}) VALUES ({value});", may
    written, value_type = names[-1], columns[-1].type
    for kind, expression in EXPRESSIONS.items():
        may = "" if kind in NEVER else f"a value that fits {value_type}"
        yield f"{kind} as value", f"{insert} ({written}) VALUES ({expression});", may


NEVER = {
    "unknown column", "unknown alias", "unknown function", "too few arguments", "wrong argument",
    "too many arguments", "arithmetic on boolean", "arithmetic on NULL", "negative text",
    "compared types", "compared with NULL", "order of arrays", "empty array", "empty map",
    "field of text", "struct field twice", "nested aggregate", "aggregate of nothing",
    "nested table function", "window bound", "decimal precision", "unknown type",
}  # fmt: skip
"""Errors for any column."""


def _pulls(source: Source, name: str) -> Iterator[Wrong]:
    columns = source.schema.columns
    first = columns[0]
    key = _name(first.name)
    start = f"SELECT * FROM {name}"
    for kind, expression in EXPRESSIONS.items():
        may = "" if kind in NEVER - {"window bound"} else "an expression of a row"
        yield f"{kind} selected", f"SELECT {expression} FROM {name};", may
        yield f"{kind} in WHERE", f"{start} WHERE {expression};", may
        yield f"{kind} as key", f"{start} WHERE {key} = {expression};", may
    yield "unknown column", f"SELECT NO_SUCH FROM {name};", ""
    yield "aggregate", f"SELECT COUNT(*) FROM {name};", "pull queries go beyond the dialect"
    yield "window", f"{start} WINDOW TUMBLING (SIZE 1 SECOND);", ""
    yield "partition", f"{start} PARTITION BY {key};", ""
    yield "negative limit", f"{start} LIMIT -1;", ""
    yield "limit of text", f"{start} LIMIT 'x';", ""
    yield "LIKE", f"{start} WHERE {key} LIKE 'x';", "a scan" if first.type is STRING else ""
    yield "key of other type", f"{start} WHERE {key} = {_other(first)};", ""
    yield "key in other type", f"{start} WHERE {key} IN ({_other(first)});", "read as text"
    yield "key is NULL", f"{start} WHERE {key} = NULL;", ""
    yield "order by unknown", f"{start} ORDER BY NO_SUCH;", ""
    yield "joined with unknown", f"{start} JOIN {MISSING} ON 1 = 1;", ""
    yield "grouped by unknown", f"SELECT COUNT(*) FROM {name} GROUP BY NO_SUCH;", ""
    yield "HAVING alone", f"SELECT {key} FROM {name} HAVING 1 = 1;", "beyond the dialect"
    yield "no key of windows", f"{start} WHERE WINDOWSTART = 1;", "the table is windowed"
    yield "bound as text", f"{start} WHERE WINDOWSTART = 'yesterday';", ""


def _other(column: Column) -> str:
    return "12" if column.type is STRING else "ARRAY[MAP('a' := 1)]"


def _value(kind: SqlType) -> str:
    match kind:
        case Array(element):
            return f"ARRAY[{_value(element)}]"
        case Map(key, value):
            return f"MAP({_value(key)} := {_value(value)})"
        case Struct(fields):
            return f"STRUCT({', '.join(f'{_name(f.name)} := {_value(f.type)}' for f in fields)})"
    return _TEXTS.get(str(kind), f"CAST(1 AS {kind})")


_TEXTS = {
    "STRING": "'1'", "BOOLEAN": "true", "BYTES": "'AA=='", "DATE": "'2020-01-01'",
    "TIME": "'00:00:00'", "TIMESTAMP": "'2020-01-01T00:00:00'",
}  # fmt: skip


def _name(name: str) -> str:
    return f"`{name}`"
