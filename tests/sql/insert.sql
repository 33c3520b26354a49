-- INSERT INTO … VALUES and INSERT INTO … SELECT.
CREATE STREAM s (k INT KEY, a BIGINT, b STRING) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');

--@test: without a list of columns all of them, the key first
INSERT INTO s VALUES (1, 2, 'x');
SELECT * FROM s EMIT CHANGES;
-- | K | A | B |
-- |---|---|---|
-- | 1 | 2 | x |
INSERT INTO s VALUES (1, 2);
-- error: 2

--@test: columns that are left out are NULL
INSERT INTO s (b, k) VALUES ('x', 1);
SELECT * FROM s EMIT CHANGES;
-- | K | A    | B |
-- |---|------|---|
-- | 1 | NULL | x |

--@test: values may be expressions, and literals are converted
INSERT INTO s VALUES (1 + 1, '7', CONCAT('a', 'b'));
SELECT * FROM s EMIT CHANGES;
-- | K | A | B  |
-- |---|---|----|
-- | 2 | 7 | ab |
INSERT INTO s VALUES (1, 'seven', 'x');
-- error: seven

--@test: ROWTIME is the time of the record, in ms or as text
INSERT INTO s (ROWTIME, k) VALUES (1234, 1);
INSERT INTO s (ROWTIME, k) VALUES ('1970-01-01T00:00:02', 2);
SELECT k, ROWTIME FROM s EMIT CHANGES;
-- | K | ROWTIME |
-- |---|---------|
-- | 1 |    1234 |
-- | 2 |    2000 |

--@test: a row of NULL values is no deletion
CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE kept AS SELECT * FROM t;
INSERT INTO t VALUES (1, 5);
INSERT INTO t (id) VALUES (1);
SELECT * FROM kept;
-- | ID | V    |
-- |----|------|
-- |  1 | NULL |

--@test: what cannot be inserted into is refused
CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
INSERT INTO t (v) VALUES (1);
-- error: ID
INSERT INTO o VALUES (1, 2);
-- error: O
INSERT INTO strean VALUES (1);
-- error: STREAN
INSERT INTO s (k, nothing) VALUES (1, 2);
-- error: NOTHING
INSERT INTO s (k, ROWOFFSET) VALUES (1, 2);
-- error: ROWOFFSET
INSERT INTO s (k, k) VALUES (1, 2);
-- error: twice
SET 'ksql.insert.into.values.enabled' = 'false';
INSERT INTO s VALUES (1, 2, 'x');
-- error: isabled

--@test: INSERT INTO … SELECT adds the rows of a query to a stream
CREATE STREAM other (k INT KEY, a BIGINT, b STRING) WITH (KAFKA_TOPIC='other', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM merged AS SELECT * FROM s;
INSERT INTO merged SELECT * FROM other;
INSERT INTO s VALUES (1, 10, 'from s');
INSERT INTO other VALUES (2, 20, 'from other');
SELECT * FROM merged EMIT CHANGES;
-- unordered
-- | K |  A | B          |
-- |---|----|------------|
-- | 1 | 10 | from s     |
-- | 2 | 20 | from other |

--@test: INSERT INTO … SELECT widens numbers, and needs the same columns
CREATE STREAM small (k INT KEY, a INT, b STRING) WITH (KAFKA_TOPIC='small', PARTITIONS=1, VALUE_FORMAT='JSON');
INSERT INTO s SELECT * FROM small;
INSERT INTO small VALUES (1, 5, 'x');
SELECT * FROM s EMIT CHANGES;
-- | K | A | B |
-- |---|---|---|
-- | 1 | 5 | x |
INSERT INTO small SELECT * FROM s;
-- error: BIGINT
INSERT INTO s SELECT k, b, a FROM s;
-- error: A
CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
INSERT INTO t SELECT k AS id, CAST(a AS INT) AS v FROM s;
-- error: T

--@test: a query that feeds itself comes to no end, and is refused no name of its own
INSERT INTO s WITH (QUERY_ID='mine') SELECT * FROM s WHERE a < 3 AND b = 'never';
TERMINATE mine;
-- ok: terminated
TERMINATE mine;
-- error: MINE
