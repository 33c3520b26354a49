"""What people write who know SQL from elsewhere, and what it is here: hints of syntax errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_TRANSACTIONS = "Each INSERT is a transaction of its own; db.insert(…) in Python inserts many rows."
STATEMENTS: Mapping[str, str] = {
    "DELETE": "A row of a table goes with a record of its key that has no value; rows of streams"
    " stay as long as their topic keeps them.",
    "TRUNCATE": "DROP … DELETE TOPIC deletes all records.",
    "UPDATE": "INSERT INTO a table replaces the row of that key.",
    "UPSERT": "INSERT INTO a table replaces the row of that key.",
    "MERGE": "INSERT INTO a table replaces the row of that key; joins are written as queries.",
    "REPLACE": "CREATE OR REPLACE … changes a query; INSERT INTO a table replaces a row.",
    "WITH": "There is no WITH in front of a query with EMIT CHANGES, nor of CREATE: make a stream"
    " of the inner query (CREATE STREAM … AS SELECT …), and read that.",
    "VALUES": "INSERT INTO … VALUES (…) inserts rows.",
    "BEGIN": _TRANSACTIONS,
    "START": _TRANSACTIONS,
    "COMMIT": _TRANSACTIONS,
    "ROLLBACK": _TRANSACTIONS,
    "USE": "There is one database: the file, service or server that was connected to.",
    "ATTACH": "There is one database: the file, service or server that was connected to.",
    "DESC": "Did you mean DESCRIBE?",
    "GRANT": "Permissions are in the files of the server: docs/server.md.",
    "REVOKE": "Permissions are in the files of the server: docs/server.md.",
    "ANALYZE": "EXPLAIN shows how a query runs; nothing has to be analysed.",
    "VACUUM": "Space is used again by itself; ALTER TOPIC … SET ('retention.ms' = '…') limits it.",
    "CALL": "Functions are called in expressions: SELECT …",
    "FROM": "A query begins with SELECT.",
    "LOAD": "COPY orders FROM 'orders.csv'; inserts the rows of a file.",
    "IMPORT": "COPY orders FROM 'orders.csv'; inserts the rows of a file.",
    "SUBSCRIBE": "SELECT * FROM … EMIT CHANGES; follows a stream or table.",
    "LISTEN": "SELECT * FROM … EMIT CHANGES; follows a stream or table.",
    "STOP": "Did you mean PAUSE or TERMINATE?",
    "KILL": "Did you mean TERMINATE?",
    "CANCEL": "Did you mean TERMINATE?",
}
"""First words of statements that do not exist."""

_OBJECTS: Mapping[str, str] = {
    "VIEW": "CREATE STREAM … AS SELECT … or CREATE TABLE … AS SELECT … is kept up to date, as a"
    " materialised view is.",
    "MATERIALIZED": "CREATE TABLE … AS SELECT … is kept up to date, as a materialised view is.",
    "INDEX": "Tables have an index on their key, and no others: GROUP BY what you want to find.",
    "DATABASE": "A database is a file, or a service on Kafka: connect to it.",
    "SCHEMA": "Names have no schemas.",
    "FUNCTION": "Functions are written in Python: millstream.udf, docs/functions.md.",
    "TOPIC": "CREATE STREAM … WITH (KAFKA_TOPIC='…', PARTITIONS=…) makes its topic, and DROP STREAM"
    " … DELETE TOPIC deletes it.",
    "TEMP": "Nothing is temporary: SELECT … EMIT CHANGES leaves nothing behind.",
    "TEMPORARY": "Nothing is temporary: SELECT … EMIT CHANGES leaves nothing behind.",
    "USER": "Users are in the files of the server: docs/server.md.",
    "ROLE": "Roles are in the files of the server: docs/server.md.",
    "QUERY": "CREATE STREAM … AS SELECT … starts a query, TERMINATE ends one.",
}
_SHOWN: Mapping[str, str] = {
    "QUERY": "QUERIES", "STREAM": "STREAMS", "TABLE": "TABLES", "TOPIC": "TOPICS",
    "FUNCTION": "FUNCTIONS", "TYPE": "TYPES", "PROPERTY": "PROPERTIES", "VARIABLE": "VARIABLES",
    "CONNECTOR": "CONNECTORS", "SETTINGS": "PROPERTIES", "VIEWS": "TABLES", "DATABASES": "STREAMS",
}  # fmt: skip
_CLAUSES = frozenset({"WHERE", "GROUP", "HAVING", "WINDOW", "PARTITION", "JOIN"})
_WINDOWS = frozenset({"TUMBLING", "HOPPING", "SESSION", "SLIDING"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a statement cannot be read: its words in upper case, the one at which it failed, and
    what may stand there."""

    words: Sequence[str]
    at: int
    expected: Sequence[str]

    @property
    def word(self) -> str:
        """The word that is not expected."""
        return self.words[self.at]

    @property
    def before(self) -> Sequence[str]:
        """The words in front of it."""
        return self.words[: self.at]

    def last(self, count: int) -> tuple[str, ...]:
        """The words just in front of it, fewer at the beginning."""
        return tuple(self.before[-count:])


def hint_for(place: Place) -> str:
    """What is meant, and how it is written here; empty where nobody knows."""
    return next((hint for rule in _RULES if (hint := rule(place))), "")


def _object(place: Place) -> str:
    known = place.last(1) in (("CREATE",), ("DROP",), ("ALTER",), ("REPLACE",))
    return _OBJECTS.get(place.word, "") if known else ""


def _insert(place: Place) -> str:
    return "INSERT is followed by INTO." if place.expected == ("'INTO'",) else ""


def _show(place: Place) -> str:
    shown = _SHOWN.get(place.word) if place.last(1) in (("SHOW",), ("LIST",)) else None
    return f"Did you mean {shown}?" if shown else ""


def _distinct(place: Place) -> str:
    if place.word != "DISTINCT":
        return ""
    if place.last(2) == ("COUNT", "("):
        return "COUNT_DISTINCT(x) counts the different values of x."
    return "The dialect has no DISTINCT: GROUP BY the columns."


def _order_of_clauses(place: Place) -> str:
    if place.word == "EMIT" and "LIMIT" in place.before:
        return "LIMIT comes last: … EMIT CHANGES LIMIT 5."
    if "ORDER" in (place.word, *place.before) and "EMIT" in place.words:
        return "With EMIT CHANGES, rows come as they change, so there is no ORDER BY."
    if place.last(1) == ("EMIT",):
        return "Did you mean EMIT CHANGES?"
    if place.word in _CLAUSES and "EMIT" in place.before:
        return f"{place.word} comes before EMIT CHANGES."
    return ""


def _sources(place: Place) -> str:
    if place.word == "(" and place.last(1) in (("FROM",), ("JOIN",)):
        return (
            "A query with EMIT CHANGES, or one that is kept, reads streams and tables by name: make"
            " one of the inner query (CREATE STREAM … AS SELECT …), and read that."
        )
    if place.word == "," and "FROM" in place.last(3):
        return "Streams and tables are joined by JOIN … ON …, not listed."
    if "'ON'" in place.expected and "JOIN" in place.before:
        return "A join says on what: … JOIN users u ON o.customer = u.id."
    return ""


def _window(place: Place) -> str:
    if not _WINDOWS.intersection(place.last(6)):
        return ""
    if "'SIZE'" in place.expected:
        return "A window has a size: WINDOW TUMBLING (SIZE 5 MINUTES)."
    if place.expected == ("INTEGER_VALUE",):
        return "Durations are a number and a unit, without quotes: 5 MINUTES."
    if "HOPPING" in place.before and place.word == ")":
        return "A hopping window also says how far it moves: (SIZE 5 MINUTES, ADVANCE BY 1 MINUTE)."
    units = [each.strip("'") for each in place.expected]
    meant = [unit for unit in units if unit.startswith(place.word) and place.word]
    return f"Did you mean {meant[0]}?" if "MINUTES" in meant or "HOURS" in meant else ""


def _property(place: Place) -> str:
    if place.before[:1] == ["SET"]:
        return "Names and values of properties are texts: SET 'auto.offset.reset' = 'earliest';"
    if place.word == "TOPIC" and "WITH" in place.before:
        return "The property is called KAFKA_TOPIC."
    if place.last(1) == ("=",) and "STRING" in place.expected:
        return "Texts are in single quotes."
    return ""


def _column(place: Place) -> str:
    if place.before[:1] == ["ALTER"] and place.word in ("DROP", "RENAME", "MODIFY", "ALTER"):
        return (
            "Columns are only added: ALTER STREAM … ADD COLUMN …. CREATE OR REPLACE changes more."
        )
    if place.word == "LIST" and place.expected == ("type",):
        return "Lists are ARRAY<INT>."
    if place.expected == ("type",) and place.word in (")", ","):
        return "Each column has a type: (id STRING)."
    return ""


def _expression(place: Place) -> str:
    if place.word == ")" and place.last(2) == ("IN", "("):
        return "IN takes one value at least."
    if place.word == "." and place.expected == ("'FROM'",):
        return "A field of a STRUCT is taken by an arrow: item->sku."
    if place.word == "=" and place.last(1) == ("=",):
        return "Equality is one sign: a = b."
    alone = "FROM" not in place.words[place.at + 1 :]
    if place.word == "FROM" and place.last(1) == ("SELECT",) and alone:
        return "What is selected is missing: SELECT * FROM …"
    return ""


_RULES: tuple[Callable[[Place], str], ...] = (
    _object,
    _insert,
    _show,
    _distinct,
    _order_of_clauses,
    _sources,
    _window,
    _property,
    _column,
    _expression,
)
