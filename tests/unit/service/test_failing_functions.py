"""What becomes of a row for which a function computed in Python fails, clause by clause.

As for any expression (`test_failures_by_clause`): the failure is one of the whole expression, but
for an item of ARRAY and an argument, which are NULL by themselves (`test_short_circuits` has the
source). It has an entry in the processing log in both cases, and is the same live, in push and pull
queries and over history, however the records are cut into batches.
"""

from __future__ import annotations

from typing import Any

import pytest

from millstream import Database, Stream, udf
from tests.unit.service.test_bad_input import problems, rows, states

SOURCES = (
    "CREATE STREAM s (k STRING KEY, t STRING, w STRING) WITH (KAFKA_TOPIC='s', PARTITIONS=1,"
    " FORMAT='JSON');"
    "CREATE TABLE t (k STRING PRIMARY KEY, w INT) WITH (KAFKA_TOPIC='t', PARTITIONS=1,"
    " FORMAT='JSON');"
)
RECORDS = (
    "INSERT INTO t VALUES ('2021', 7);",
    "INSERT INTO s VALUES ('a', '2021', 'x');",
    "INSERT INTO s VALUES ('b', 'bad', 'x');",
    "INSERT INTO s (k, w) VALUES ('c', 'x');",
    "INSERT INTO s VALUES ('a', '2022', 'y');",
)
CALLS = {
    "dates": "WHEN PARSE_DATE({t}, 'yyyy') = FROM_DAYS(18628) THEN '2021' ELSE '2022'",
    "JSON": "ELSE EXTRACTJSONFIELD({t}, '$')",
    "patterns": "ELSE REGEXP_EXTRACT(CASE WHEN {t} = 'bad' THEN '(' ELSE '2.*' END, {t})",
    "own functions": "ELSE YEAR({t})",
}
"""Each is the year for the good ones and fails for `bad`."""
ARGUMENTS = {
    "dates": "FORMAT_DATE(PARSE_DATE({t}, 'yyyy'), 'yyyy')",
    "JSON": "EXTRACTJSONFIELD({t}, '$')",
    "patterns": "REGEXP_EXTRACT(CASE WHEN {t} = 'bad' THEN '(' ELSE '2.*' END, {t})",
    "own functions": "YEAR({t})",
}
"""The same as calls."""


def year(text: str) -> str:
    return str(int(text))


NONE = [("b", "none"), ("c", "none")]
FALSE = [("b", False), ("c", False)]
LISTED = [("b", ["none"]), ("c", ["none"])]
CLAUSES: dict[str, tuple[str, list[tuple[Any, ...]], bool]] = {
    "SELECT": (
        "STREAM o AS SELECT k, {f} AS q FROM s",
        [("a", "2021"), ("a", "2022"), ("b", None), ("c", "none")],
        True,
    ),
    "IS NULL": (
        "STREAM o AS SELECT k, {f} IS NULL AS q FROM s",
        [("a", False), ("a", False), ("b", None), ("c", False)],
        True,
    ),
    "a branch not taken": (
        "STREAM o AS SELECT k, CASE WHEN w = 'x' THEN 'x' ELSE {f} END AS q FROM s",
        [("a", "2022"), ("a", "x"), ("b", "x"), ("c", "x")],
        True,
    ),
    "AND": (
        "STREAM o AS SELECT k, w = 'y' AND {f} = '2022' AS q FROM s",
        [("a", False), ("a", True), ("b", False), ("c", False)],
        True,
    ),
    "OR": (
        "STREAM o AS SELECT k, w = 'y' OR {f} = 'none' AS q FROM s",
        [("a", False), ("a", True), ("b", None), ("c", True)],
        True,
    ),
    "a lambda": (
        "STREAM o AS SELECT k, TRANSFORM(ARRAY[t], t => {f}) AS q FROM s",
        [("a", ["2021"]), ("a", ["2022"]), ("b", None), ("c", ["none"])],
        True,
    ),
    "WHERE": (
        "STREAM o AS SELECT k, w FROM s WHERE {f} <> 'nothing'",
        [("a", "x"), ("a", "y"), ("c", "x")],
        True,
    ),
    "an argument": (
        "TABLE o AS SELECT w, COUNT({f}) AS c, COLLECT_LIST({f}) AS l FROM s GROUP BY w",
        [("x", 2, ["2021", None, "none"]), ("y", 1, ["2022"])],
        True,
    ),
    "HAVING": (
        "TABLE o AS SELECT k, COUNT(*) AS c FROM s GROUP BY k HAVING {max} <> 'nothing'",
        [("a", 2), ("c", 1)],
        True,
    ),
    "GROUP BY": (
        "TABLE o AS SELECT {f} AS g, COUNT(*) AS c FROM s GROUP BY {f}",
        [("2021", 1), ("2022", 1), ("none", 1)],
        True,
    ),
    "PARTITION BY": (
        "STREAM o AS SELECT {f} AS p, k FROM s PARTITION BY {f}",
        [("2021", "a"), ("2022", "a"), ("none", "c"), (None, "b")],
        False,
    ),
    "LEFT JOIN ON": (
        "STREAM o AS SELECT t.k AS j, s.w, t.w FROM s LEFT JOIN t ON {s} = t.k",
        [("2021", "x", 7), ("2022", "y", None), ("none", "x", None), (None, "x", None)],
        False,
    ),
    "JOIN ON": (
        "STREAM o AS SELECT t.k AS j, s.w, t.w FROM s JOIN t ON {s} = t.k",
        [("2021", "x", 7)],
        False,
    ),
    "a table function": (
        "STREAM o AS SELECT k, EXPLODE(ARRAY[{f}, w]) AS e FROM s",
        [
            *(("a", "2021"), ("a", "2022"), ("a", "x"), ("a", "y"), ("b", None), ("b", "x")),
            *(("c", "none"), ("c", "x")),
        ],
        False,
    ),
}
"""The query, its rows, and whether the same SELECT may be asked over history."""
NO_FAILURE = ("a branch not taken", "AND")


BY_THEMSELVES: dict[str, tuple[str, list[tuple[Any, ...]], bool]] = {
    "SELECT": (CLAUSES["SELECT"][0], [("a", "2021"), ("a", "2022"), *NONE], True),
    "IS NULL": (CLAUSES["IS NULL"][0], [("a", False), ("a", False), *FALSE], True),
    "a lambda": (CLAUSES["a lambda"][0], [("a", ["2021"]), ("a", ["2022"]), *LISTED], True),
    "WHERE": (CLAUSES["WHERE"][0], [("a", "x"), ("a", "y"), ("b", "x"), ("c", "x")], True),
    "an argument": (
        CLAUSES["an argument"][0],
        [("x", 3, ["2021", "none", "none"]), ("y", 1, ["2022"])],
        True,
    ),
    "HAVING": (CLAUSES["HAVING"][0], [("a", 2), ("b", 1), ("c", 1)], True),
    "GROUP BY": (CLAUSES["GROUP BY"][0], [("2021", 1), ("2022", 1), ("none", 2)], True),
    "PARTITION BY": (
        CLAUSES["PARTITION BY"][0],
        [("2021", "a"), ("2022", "a"), ("none", "b"), ("none", "c")],
        False,
    ),
    "JOIN ON": CLAUSES["JOIN ON"],
    "a branch not taken": CLAUSES["a branch not taken"],
    "AND": CLAUSES["AND"],
}
"""The same with COALESCE around the call, whose arguments are NULL by themselves."""


def whole(call: str) -> str:
    """Fails as a whole for `bad`, 'none' for NULL."""
    return f"CASE WHEN {{t}} IS NULL THEN 'none' {CALLS[call]} END"


def argument(call: str) -> str:
    """'none' for `bad` as for NULL."""
    return f"COALESCE({ARGUMENTS[call]}, 'none')"


def statement(template: str, text: str) -> str:
    found = {name: text.replace("{t}", t) for name, t in (("f", "t"), ("s", "s.t"))}
    found["max"] = text.replace("{t}", "MAX(t)")
    for name, made in found.items():
        template = template.replace(f"{{{name}}}", made)
    return template


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("clause", CLAUSES)
@pytest.mark.parametrize("single", [True, False], ids=["one record a batch", "all in one batch"])
def test_the_whole_fails(db: Database, clause: str, call: str, single: bool) -> None:
    check(db, CLAUSES, clause, whole(call), single)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("clause", BY_THEMSELVES)
@pytest.mark.parametrize("single", [True, False], ids=["one record a batch", "all in one batch"])
def test_an_argument_fails_by_itself(db: Database, clause: str, call: str, single: bool) -> None:
    check(db, BY_THEMSELVES, clause, argument(call), single)


def check(
    db: Database,
    clauses: dict[str, tuple[str, list[tuple[Any, ...]], bool]],
    clause: str,
    text: str,
    single: bool,
) -> None:
    template, expected, past = clauses[clause]
    sql = statement(template, text)
    expected = sorted(expected, key=repr)
    db.register(udf("YEAR", "STRING -> STRING", year))
    db.execute(SOURCES)
    if single:
        db.execute(f"CREATE {sql};")
    for record in RECORDS:
        db.execute(record)
        if single:
            db.wait()
    if not single:
        db.execute(f"CREATE {sql};")
    db.wait()
    assert rows(db, "SELECT * FROM o;") == expected
    assert states(db)["O"] == "RUNNING"
    messages = [str(row["message"]) for row in problems(db, "EXPRESSION")]
    assert bool(messages) == (clause not in NO_FAILURE)
    if past:
        select = sql.split(" AS ", 1)[1]
        assert rows(db, f"{select};") == expected
        if sql.startswith("STREAM"):
            pushed = db.execute(f"{select} EMIT CHANGES LIMIT {len(expected)};")
            assert isinstance(pushed, Stream)
            assert sorted(map(tuple, pushed), key=repr) == expected


def test_pull_queries_over_tables(db: Database) -> None:
    db.execute(SOURCES)
    db.execute("CREATE TABLE m AS SELECT k, MAX(t) AS t, COUNT(*) AS n FROM s GROUP BY k;")
    for record in RECORDS:
        db.execute(record)
    db.wait()
    found = rows(db, "SELECT k, PARSE_DATE(t, 'yyyy') IS NULL AS q FROM m;")
    assert found == [("a", False), ("b", None), ("c", True)]
    found = rows(db, "SELECT k, COALESCE(PARSE_DATE(t, 'yyyy'), FROM_DAYS(0)) IS NULL AS q FROM m;")
    assert found == [("a", False), ("b", False), ("c", False)]
    assert rows(db, "SELECT k FROM m WHERE PARSE_DATE(t, 'yyyy') IS NULL;") == [("c",)]
    assert rows(db, "SELECT k FROM m WHERE n = 2 OR PARSE_DATE(t, 'yyyy') IS NULL;") == [
        ("a",),
        ("c",),
    ]


def test_values_that_fail_are_not_inserted(db: Database) -> None:
    db.execute(SOURCES)
    with pytest.raises(Exception, match="T"):
        db.execute("INSERT INTO s (k, t) VALUES ('a', EXTRACTJSONFIELD('no JSON', '$.a'));")
    db.execute("INSERT INTO s (k, t) VALUES ('a', EXTRACTJSONFIELD('{}', '$.a'));")
    db.wait()
    assert rows(db, "SELECT k, t FROM s;") == [("a", None)]
