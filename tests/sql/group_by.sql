-- GROUP BY and HAVING over streams and tables.
CREATE STREAM s (k STRING KEY, f1 INT, f2 STRING, v INT)
  WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE t (id INT PRIMARY KEY, g STRING, v INT) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM t_raw (id INT KEY, v STRING) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='KAFKA');

--@test: each row updates the row of its group
CREATE TABLE sums AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s GROUP BY k;
INSERT INTO s (k, v) VALUES ('a', 1);
INSERT INTO s (k, v) VALUES ('b', 5);
INSERT INTO s (k, v) VALUES ('a', 2);
SELECT * FROM sums EMIT CHANGES;
-- | K | N | TOTAL |
-- |---|---|-------|
-- | a | 1 |     1 |
-- | b | 1 |     5 |
-- | a | 2 |     3 |

--@test: by several columns, in the order of GROUP BY
CREATE TABLE o WITH (KEY_FORMAT='JSON') AS SELECT f1, f2, COUNT(*) FROM s GROUP BY f2, f1;
INSERT INTO s (k, f1, f2) VALUES ('x', 1, 'a');
PRINT O FROM BEGINNING;
-- | record                                                                                            |
-- |---------------------------------------------------------------------------------------------------|
-- | Key format: JSON or KAFKA_STRING                                                                  |
-- | Value format: JSON or KAFKA_STRING                                                                |
-- | rowtime: 1970/01/01 00:00:00.000 Z, key: {"F2":"a","F1":1}, value: {"KSQL_COL_0":1}, partition: 0 |

--@test: by an expression
CREATE TABLE o AS SELECT v % 2 AS odd, COUNT(*) AS n FROM s GROUP BY v % 2;
INSERT INTO s (k, v) VALUES ('x', 3);
INSERT INTO s (k, v) VALUES ('x', 4);
INSERT INTO s (k, v) VALUES ('x', 5);
SELECT * FROM o;
-- | ODD | N |
-- |-----|---|
-- |   0 | 1 |
-- |   1 | 2 |

--@test: a row whose group is NULL is left out
CREATE TABLE o AS SELECT f2, COUNT(*) AS n FROM s GROUP BY f2;
INSERT INTO s (k, v) VALUES ('x', 3);
INSERT INTO s (k, f2) VALUES ('x', 'g');
SELECT * FROM o;
-- | F2 | N |
-- |----|---|
-- | g  | 1 |

--@test: over a table the old row is taken away before the new one is added
CREATE TABLE counts AS SELECT g, COUNT(*) AS c FROM t GROUP BY g;
INSERT INTO t VALUES (1, 'x', 0);
INSERT INTO t VALUES (2, 'y', 0);
INSERT INTO t VALUES (1, 'y', 0);
INSERT INTO t_raw (id) VALUES (2);
SELECT * FROM counts EMIT CHANGES;
-- | G | C |
-- |---|---|
-- | x | 1 |
-- | y | 1 |
-- | x | 0 |
-- | y | 2 |
-- | y | 1 |

--@test: HAVING deletes what it no longer holds for
CREATE TABLE counts AS SELECT g, COUNT(*) AS c FROM t GROUP BY g HAVING COUNT(*) > 0;
INSERT INTO t VALUES (1, 'x', 0);
INSERT INTO t VALUES (2, 'y', 0);
INSERT INTO t VALUES (1, 'y', 0);
INSERT INTO t_raw (id) VALUES (2);
SELECT * FROM counts EMIT CHANGES;
-- | G |           C |
-- |---|-------------|
-- | x |           1 |
-- | y |           1 |
-- | x | <TOMBSTONE> |
-- | y |           2 |
-- | y |           1 |

--@test: HAVING of a sum
CREATE TABLE o AS SELECT k, SUM(v) AS total FROM s GROUP BY k HAVING SUM(v) > 10;
INSERT INTO s (k, v) VALUES ('a', 5);
INSERT INTO s (k, v) VALUES ('a', 6);
INSERT INTO s (k, v) VALUES ('a', -1);
INSERT INTO s (k, v) VALUES ('a', 1);
SELECT * FROM o EMIT CHANGES;
-- | K |       TOTAL |
-- |---|-------------|
-- | a |          11 |
-- | a | <TOMBSTONE> |
-- | a |          11 |

--@test: WHERE comes before the aggregation
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WHERE v > 1 GROUP BY k;
INSERT INTO s (k, v) VALUES ('a', 1);
INSERT INTO s (k, v) VALUES ('a', 2);
SELECT * FROM o;
-- | K | N |
-- |---|---|
-- | a | 1 |

--@test: a push query may aggregate all rows
INSERT INTO s (k) VALUES ('a');
INSERT INTO s (k) VALUES ('b');
SELECT COUNT(*) AS n FROM s EMIT CHANGES;
-- | N |
-- |---|
-- | 1 |
-- | 2 |
CREATE TABLE o AS SELECT COUNT(*) AS n FROM s;
-- error: GROUP BY

--@test: what does not fit is refused
CREATE TABLE o AS SELECT k, v, COUNT(*) FROM s GROUP BY k;
-- error: V
CREATE TABLE o AS SELECT k, v FROM s GROUP BY k;
-- error: GROUP BY
CREATE TABLE o AS SELECT k, COUNT(*) FROM s WHERE COUNT(*) > 1 GROUP BY k;
-- error: WHERE
CREATE TABLE o AS SELECT k, SUM(COUNT(*)) FROM s GROUP BY k;
-- error: SUM
CREATE TABLE o AS SELECT g, MAX(v) FROM t GROUP BY g;
-- error: MAX
