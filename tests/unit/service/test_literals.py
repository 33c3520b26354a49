"""String literals mean the same everywhere: no layer edits the text between the quotes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import millstream
from millstream import Database, History, Rows

TEXTS = {
    "indented": "first\n   second\n\n  third",
    "carriage": "a\r\n  b\rc",
    "indented-quotes": "'\n  ''\n    '",
    "comments": "--x\n  /*y\n  */ -- z",
    "dollars": "$$\n  $tag$ $1 ?",
    "braces": "{0}\n  {args} %s %(a)s",
    "escapes": "\\n\n  \\\\",
    "relations": 'FROM "in_0"\n  JOIN "out"',
    "nul": "a\0b\n  \0",
    "emoji": "😀\n  👩‍👩‍👧",
    "separators": "a\u2028  b\u0085  c\x0b  d\x1c  e",
    "spaces": "   leading and trailing   ",
    "tabs": "\n\t\tx\n\t",
}
SCRIPT = """
CREATE STREAM s (k STRING KEY, v INT, t STRING)
  WITH (KAFKA_TOPIC='s', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE names (k STRING PRIMARY KEY, n STRING)
  WITH (KAFKA_TOPIC='names', PARTITIONS=2, VALUE_FORMAT='JSON');
INSERT INTO names (ROWTIME, k, n) VALUES (1, 'a', {text});
INSERT INTO s (ROWTIME, k, v, t) VALUES (1000, 'a', 1, {text});
INSERT INTO s (ROWTIME, k, v, t) VALUES (2000, 'a', 2, 'other');
INSERT INTO s (ROWTIME, k, v, t) VALUES (3000, 'b', 3, {text});
"""
QUERIES = """
CREATE TABLE filtered AS SELECT k, COUNT(*) AS n FROM s WHERE t = {text} GROUP BY k;
CREATE TABLE shown AS SELECT CASE WHEN v = 1 THEN {text} ELSE 'rest' END AS g, SUM(v) AS total
  FROM s GROUP BY CASE WHEN v = 1 THEN {text} ELSE 'rest' END HAVING MAX(t) <> CONCAT({text}, 'x');
CREATE STREAM moved AS SELECT CONCAT(k, {text}) AS p, v, t
  FROM s WHERE t = {text} PARTITION BY CONCAT(k, {text});
CREATE STREAM chosen AS SELECT k, v, CASE WHEN t = {text} THEN {text} ELSE NULL END AS c FROM s;
CREATE STREAM joined AS SELECT c.k AS k, c.v AS v, n.n AS n, CONCAT(c.c, {text}) AS twice
  FROM chosen c JOIN names n ON c.k = n.k WHERE n.n = {text} AND c.c = {text};
CREATE TABLE later AS SELECT k, LATEST_BY_OFFSET(n) AS n, COUNT(*) AS total
  FROM joined WHERE n = {text} GROUP BY k;
CREATE TABLE sessions AS SELECT k, COUNT(*) AS n, MAX(t) AS m FROM s
  WINDOW SESSION (10 SECONDS) WHERE t = {text} GROUP BY k;
"""
ANSWERS = [
    ("SELECT k, n FROM filtered", lambda text: {("a", 1), ("b", 1)}),
    ("SELECT g, total FROM shown", lambda text: {(text, 1), ("rest", 5)}),
    ("SELECT p, v, t FROM moved", lambda text: {("a" + text, 1, text), ("b" + text, 3, text)}),
    ("SELECT k, v, n, twice FROM joined", lambda text: {("a", 1, text, text * 2)}),
    ("SELECT k, n, total FROM later", lambda text: {("a", text, 1)}),
    ("SELECT k, n, m FROM sessions", lambda text: {("a", 1, text), ("b", 1, text)}),
    ("SELECT k, {text} AS c FROM filtered WHERE k <> {text}",
     lambda text: {("a", text), ("b", text)}),
    ("SELECT g, total FROM shown WHERE g = {text}", lambda text: {(text, 1)}),
    ("SELECT COUNT(*), MAX(n) FROM (SELECT k, n FROM later WHERE n = {text}) q GROUP BY ()",
     lambda text: {(1, text)}),
    ("SELECT k, CONCAT(t, {text}) AS c, v FROM s AS OF TIMESTAMP 9000 WHERE t = {text}",
     lambda text: {("a", text * 2, 1), ("b", text * 2, 3)}),
    ("SELECT k, COUNT(*) AS n, MAX(CASE WHEN t = {text} THEN {text} ELSE '' END) AS m "
     "FROM s AS OF TIMESTAMP 9000 WHERE t = {text} GROUP BY k",
     lambda text: {("a", 1, text), ("b", 1, text)}),
]  # fmt: skip


def quoted(text: str) -> str:
    """The text as a literal of the dialect."""
    return "'" + text.replace("'", "''") + "'"


def written(script: str, text: str) -> str:
    """The script with the literal inserted; braces within the literal stay unchanged."""
    return quoted(text).join(script.split("{text}"))


@pytest.fixture(params=TEXTS.values(), ids=TEXTS, scope="module")
def case(request: pytest.FixtureRequest) -> Iterator[tuple[Database, str]]:
    text = request.param
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
        db.execute(written(SCRIPT, text))
        db.execute(written(QUERIES, text))
        db.wait()
        yield db, text


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_a_literal_is_the_same_text_in_every_query(case: tuple[Database, str], number: int) -> None:
    db, text = case
    sql, expected = ANSWERS[number]
    result = db.execute(written(sql, text) + ";")
    assert isinstance(result, Rows | History)
    assert set(result) == expected(text)
