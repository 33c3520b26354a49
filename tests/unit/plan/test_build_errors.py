"""Invalid queries and their errors."""

from __future__ import annotations

import pytest

from millstream.model.errors import StatementError
from tests.unit.plan.planning import planned

STREAMS = [
    ("SELECT x FROM s", "SELECT column 'X' cannot be resolved."),
    ("SELECT s.x FROM s", "SELECT column 'S.X' cannot be resolved."),
    ("SELECT z.* FROM s", "'Z' is not a valid stream/table name or alias."),
    ("SELECT * FROM nowhere", "NOWHERE does not exist."),
    ("SELECT * FROM s WHERE x = 1", "WHERE column 'X' cannot be resolved."),
    ("SELECT * FROM s WHERE v + 1", "Should evaluate to boolean but is (V + 1) (INTEGER) instead."),
    ("SELECT * FROM s WHERE v > 'a'", "Error in WHERE expression: Cannot compare V (INTEGER)"),
    ("SELECT v FROM s", "must include the key column K in its projection (eg, SELECT K...)."),
    ("SELECT a, c FROM two", "must include the key columns A and B in its projection"),
    ("SELECT k, k AS l, v FROM s", "key column (`K`) more than once, aliased as: K and L."),
    ("SELECT k FROM s", "The projection contains no value columns."),
    ("SELECT k, v, w AS v FROM s", "Duplicate value columns found in schema: `V` INTEGER"),
    ("SELECT k, ROWTIME FROM s", "Reserved column name in select: `ROWTIME`."),
    ("SELECT k, ROWTIME AS ROWTIME FROM s", "Reserved column name in select: `ROWTIME`."),
    (
        "SELECT s.k, s.ROWTIME AS ROWTIME FROM s JOIN bare WITHIN 1 DAY ON s.v = bare.v",
        "Reserved column name in select: `ROWTIME`.",
    ),
    ("SELECT k, v AS ROWOFFSET FROM s", "`ROWOFFSET` is a reserved column name."),
    ("SELECT k, CASE WHEN v = 1 THEN EXPLODE(ARRAY[v]) END FROM s", "used in CASE: EXPLODE"),
    ("SELECT k, NULL FROM s", "Can't infer a type of null. Please explicitly cast it"),
    ("SELECT v, COUNT(*) FROM s GROUP BY NULL, v", "Can't infer a type of null."),
    ("SELECT COUNT(*) FROM s PARTITION BY x", "cannot be combined with aggregate functions"),
    ("SELECT k, EXPLODE(EXPLODE(ARRAY[ARRAY[v]])) FROM s", "cannot be nested: EXPLODE"),
    ("SELECT * FROM s LIMIT 3", "CREATE STREAM AS SELECT statements don't support LIMIT clause."),
    ("SELECT * FROM s WINDOW TUMBLING (SIZE 1 DAY)", "WINDOW clause requires a GROUP BY clause."),
    ("SELECT * FROM s WHERE COUNT(*) > 1", "COUNT is an aggregate function."),
    ("SELECT * FROM s PARTITION BY x", "must be a column in the source schema since PARTITION BY"),
    ("SELECT v FROM s PARTITION BY w", "must include the partitioning expression S.W in its"),
    ("SELECT * FROM s PARTITION BY v, NULL", "PARTITION BY NULL cannot be combined"),
    ("SELECT * FROM s PARTITION BY v, v", "Duplicate PARTITION BY expression: S.V"),
    ("SELECT * FROM win PARTITION BY v", "Implicit repartitioning of windowed sources is not"),
    ("SELECT * FROM t", "Please use CREATE TABLE AS SELECT statement instead."),
    ("SELECT * FROM wtab", "KSQL does not support persistent queries on windowed tables."),
    ("SELECT k, TRANSFORM(l, x => EXPLODE(l)) FROM s", "does not support table functions: EXPLODE"),
    ("SELECT k, STRUCT(a := NULL) FROM s", "Can't infer a type of null."),
    ("SELECT k, ARRAY[STRUCT(a := 1, b := STRUCT(c := NULL))] FROM s", "Can't infer a type of nul"),
    ("SELECT * FROM s EMIT FINAL", "EMIT FINAL is only supported for windowed aggregations."),
    ("SELECT * FROM s a JOIN s b WITHIN 1 DAY ON a.k = b.k", "Can not join 'S' to 'S': self joins"),
    ("SELECT * FROM bare JOIN t ON v = id JOIN t x ON v = x.id", "Source: 'T'"),
    ("SELECT * FROM bare JOIN t ON bare.v = 1", "Invalid comparison expression '1' in join"),
    ("SELECT * FROM bare JOIN t ON bare.v < t.id", "only equality is supported"),
    ("SELECT * FROM bare JOIN t ON bare.v = t.id AND bare.v = t.id",
     "joins on multiple conditions are not yet supported. Got ((BARE.V = T.ID) AND"),
    ("SELECT * FROM bare JOIN t ON bare.w = t.id", "Got BARE.W{DOUBLE} = T.ID{INTEGER}."),
    ("SELECT * FROM s JOIN t ON s.k = t.name", "the table's primary key. Got S.K = T.NAME."),
    ("SELECT * FROM t JOIN bare ON v = id", "Invalid join order: table-stream joins are not"),
    ("SELECT * FROM bare RIGHT JOIN t ON v = id", "Stream-table joins are INNER or LEFT."),
    ("SELECT * FROM bare FULL OUTER JOIN t ON v = id",
     "Full outer joins between streams and tables are not supported."),
    ("SELECT * FROM bare JOIN t WITHIN 1 DAY ON v = id", "Stream-Table join. These joins are not"),
    ("SELECT * FROM bare JOIN s ON bare.w = s.w", "Stream-Stream joins must have a WITHIN"),
    ("SELECT * FROM kaf JOIN t ON kaf.v = t.id", "Source(s) KAF are using the 'KAFKA'"),
    ("SELECT * FROM win JOIN s WITHIN 1 DAY ON win.k = s.k", "`WIN` is SESSION windowed"),
    ("SELECT w FROM bare JOIN t ON bare.v = t.id",
     "must include the join expressions BARE.V or T.ID in its projection (eg, SELECT BARE.V...)."),
    ("SELECT * FROM bare JOIN t ON v = t.id JOIN u ON v = t.id",
     "expected to reference the source (`U`)"),
    ("SELECT id FROM bare JOIN t ON v = t.id JOIN u ON v = u.id",
     "Column 'ID' is ambiguous. Could be T.ID or U.ID."),
]  # fmt: skip

TABLES = [
    ("SELECT k, SUM(v + SUM(v)) FROM s GROUP BY k", "can not be nested: SUM((V + SUM(V)))"),
    ("SELECT k, COUNT(*) FROM s GROUP BY EXPLODE(ARRAY[v])",
     "GROUP BY does not support table functions: EXPLODE is a table function."),
    ("SELECT v, k, COUNT(*) FROM s GROUP BY v", "SELECT expression(s) not part of GROUP BY: K\n"),
    ("SELECT v * SUM(w) FROM s GROUP BY k", "not part of GROUP BY: (V * SUM(W))"),
    ("SELECT v, COUNT(*) FROM s GROUP BY v HAVING w > 1", "HAVING expression not part of GROUP BY"),
    ("SELECT COUNT(*) FROM s GROUP BY v", "must include the grouping expression V in its proj"),
    ("SELECT b, COUNT(*) FROM two GROUP BY a, b", "include the grouping expression A in its"),
    ("SELECT v, v AS x, COUNT(*) FROM s GROUP BY v", "a key column more than once: `V` and `X`."),
    ("SELECT v, COUNT(*) FROM s GROUP BY v, s.v", "Duplicate GROUP BY expression: S.V"),
    ("SELECT v, COUNT(*) FROM s GROUP BY SUM(v)", "GROUP BY does not support aggregate functions"),
    ("SELECT v FROM s GROUP BY v", "GROUP BY requires aggregate functions in either the SELECT"),
    ("SELECT COUNT(*) FROM s", "requires a GROUP BY clause. Aggregate function(s): COUNT"),
    ("SELECT k, COUNT(*) FROM s", "SELECT expression(s) not part of GROUP BY: K"),
    ("SELECT v, COUNT(*) FROM kaf GROUP BY v", "Source(s) KAF are using the 'KAFKA' value format."),
    ("SELECT name, MAX(id) FROM t GROUP BY name", "The aggregation function MAX cannot be applied"),
    ("SELECT name, MAX(id), MIN(id) FROM t GROUP BY name", "functions MAX and MIN cannot"),
    ("SELECT id, EXPLODE(ARRAY[1]) FROM t", "Table source is not supported with table functions"),
    ("SELECT * FROM t PARTITION BY name", "PARTITION BY is only supported on streams"),
    ("SELECT v, COUNT(*) FROM s GROUP BY v PARTITION BY v", "cannot be combined with GROUP BY"),
    ("SELECT k, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 DAY) GROUP BY k, WINDOWEND",
     "WINDOWEND can only be used in the SELECT clause of windowed aggregations"),
    ("SELECT k, MIN(WINDOWSTART) FROM s WINDOW TUMBLING (SIZE 1 DAY) GROUP BY k",
     "WINDOWSTART can only be used in the SELECT clause of windowed aggregations"),
    ("SELECT k, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 DAY) WHERE WINDOWEND > 1 GROUP BY k",
     "Error in WHERE expression: Unknown column WINDOWEND."),
    ("SELECT k, COUNT(*) FROM s WINDOW HOPPING (SIZE 1 DAY, ADVANCE BY 2 DAYS) GROUP BY k",
     "ADVANCE BY"),
    ("SELECT k, COUNT(*) FROM s WINDOW TUMBLING (SIZE 2 DAYS, RETENTION 1 DAY) GROUP BY k",
     "RETENTION must not be shorter"),
    ("SELECT k, WINDOWSTART AS s, COUNT(*) FROM win GROUP BY k", "part of GROUP BY: WINDOWSTART"),
    ("SELECT k, COUNT(*) FROM win WINDOW TUMBLING (SIZE 1 DAY) GROUP BY k", "windowed already"),
    ("SELECT name, COUNT(*) FROM t WINDOW TUMBLING (SIZE 1 DAY) GROUP BY name",
     "Windowing not supported for table aggregations."),
    ("SELECT STRUCT(a := NULL) AS n, COUNT(*) FROM s GROUP BY STRUCT(a := NULL)",
     "Can't infer a type of null."),
    ("SELECT * FROM t JOIN u ON t.name = u.name", "of the right input table. Got T.NAME = U"),
    ("SELECT * FROM s", "Your SELECT query produces a STREAM."),
]  # fmt: skip


def _refused(sql: str, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        planned(sql)
    assert message in str(caught.value)


@pytest.mark.parametrize(("query", "message"), STREAMS)
def test_refused_streams(query: str, message: str) -> None:
    _refused(f"CREATE STREAM o AS {query};", message)


@pytest.mark.parametrize(("query", "message"), TABLES)
def test_refused_tables(query: str, message: str) -> None:
    _refused(f"CREATE TABLE o AS {query};", message)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("INSERT INTO t SELECT * FROM s;", "INSERT INTO can only be used to insert into a stream."),
        ("INSERT INTO heads SELECT * FROM line;", "because it has header columns"),
        ("INSERT INTO nowhere SELECT * FROM s;", "Sink does not exist"),
        ("INSERT INTO line SELECT k, w AS v FROM s;", "Incompatible schema between results and"),
        ("INSERT INTO line SELECT k, v AS x FROM s;", "Sink schema is `K` STRING KEY, `V` INTEGER"),
        ("INSERT INTO line SELECT * FROM win;", "do not carry the window of the result"),
        ("INSERT INTO line SELECT v, COUNT(*) FROM s GROUP BY v;", "query result is TABLE"),
    ],
)
def test_refused_inserts(sql: str, message: str) -> None:
    _refused(sql, message)


def test_positions_are_reported() -> None:
    _refused("CREATE STREAM o AS\n  SELECT k, x FROM s;", "Line: 2, Col: 13: SELECT column 'X'")
