"""Which part of a statement a refusal points at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millstream import Database
from millstream.model.errors import ConflictError, StatementError
from millstream.query.session import Session
from millstream.scripts.text import parse_text
from millstream.service.execution import execute_statement
from tests.refusals.sources import opened

WITH = "WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON')"
JOINED = "CREATE STREAM x AS SELECT * FROM orders o "
PLACES = [
    ("CREATE STREAM x AS SELECT id FROM orders GROUP BY id + 1, who;", "id + 1"),
    ("CREATE STREAM x AS SELECT id, who FROM orders HAVING who = 'a';", "who = 'a'"),
    ("CREATE STREAM x AS SELECT id FROM orders WINDOW TUMBLING (SIZE 1 HOUR) WHERE id > 1;",
     "TUMBLING (SIZE 1 HOUR)"),
    ("CREATE TABLE x AS SELECT who, COUNT(*) FROM orders WINDOW HOPPING (SIZE 1 HOUR,"
     " ADVANCE BY 2 HOURS) GROUP BY who;", "HOPPING (SIZE 1 HOUR, ADVANCE BY 2 HOURS)"),
    ("CREATE STREAM x AS SELECT id, who FROM orders WHERE 1 + COUNT(*) > 2;", "COUNT(*)"),
    ("CREATE STREAM x AS SELECT id, who FROM orders EMIT CHANGES LIMIT 3;",
     "EMIT CHANGES LIMIT 3"),
    ("CREATE STREAM x AS SELECT id, who FROM orders EMIT FINAL;", "EMIT FINAL"),
    ("CREATE STREAM x AS SELECT id, who->* FROM orders;", "who->*"),
    ("CREATE STREAM x AS SELECT id, NULL AS n FROM orders;", "NULL"),
    ("CREATE TABLE x AS SELECT who, id + 1, COUNT(*) FROM orders GROUP BY who;", "id + 1"),
    ("CREATE STREAM x AS SELECT id FROM nothing;", "nothing"),
    (f"{JOINED}JOIN orders p WITHIN 1 HOUR ON o.id = p.id;", "orders p"),
    (f"{JOINED}JOIN large l ON o.id = l.id WHERE o.id > 1;", "large l ON o.id = l.id"),
    (f"{JOINED}JOIN users u ON o.who <> u.id;", "o.who <> u.id"),
    ("CREATE STREAM x AS SELECT id FROM orders PARTITION BY id, id;", "id"),
    ("CREATE STREAM x WITH (PARTITIONS=1, KEY_FORMAT='FOO') AS SELECT * FROM orders;",
     "KEY_FORMAT='FOO'"),
    ("CREATE STREAM x WITH (NO_SUCH = 1) AS SELECT * FROM orders;", "NO_SUCH = 1"),
    ("CREATE STREAM x (a INT, b INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='NO');",
     "VALUE_FORMAT='NO'"),
    (f"CREATE STREAM x (a INT, ROWTIME BIGINT) {WITH};", "ROWTIME BIGINT"),
    (f"CREATE STREAM x (a INT, b INT HEADERS) {WITH};", "b INT HEADERS"),
    (f"CREATE STREAM x (a INT, b NO_SUCH_TYPE) {WITH};", "b NO_SUCH_TYPE"),
    (f"CREATE STREAM x (k MAP<STRING, INT> KEY, b INT) {WITH};", "k MAP<STRING, INT> KEY"),
    (f"CREATE STREAM x (b INT) {WITH[:-1]}, TIMESTAMP_FORMAT='yyyy');",
     "TIMESTAMP_FORMAT='yyyy'"),
]  # fmt: skip


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with opened() as database:
        yield database


@pytest.mark.parametrize(("text", "part"), PLACES, ids=[part for _, part in PLACES])
def test_a_refusal_points_at_the_part_that_is_wrong(
    database: Database,
    text: str,
    part: str,
) -> None:
    with pytest.raises((StatementError, ConflictError)) as caught:
        for piece in parse_text(text):
            execute_statement(database.engine, piece, Session())
    span = caught.value.span
    assert span is not None and text[span.start : span.end] == part


def test_a_refusal_of_what_is_missing_points_at_nothing(database: Database) -> None:
    (piece,) = parse_text("CREATE STREAM x (a INT) WITH (VALUE_FORMAT='JSON');")
    with pytest.raises(StatementError) as caught:
        execute_statement(database.engine, piece, Session())
    assert caught.value.span is None
