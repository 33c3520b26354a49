-- Push queries: what a stream or table has had so far, as it came.
CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');

--@test: from the beginning, or from now on
INSERT INTO s VALUES ('a', 1);
SELECT * FROM s EMIT CHANGES;
-- | K | V |
-- |---|---|
-- | a | 1 |
SET 'auto.offset.reset' = 'latest';
SELECT * FROM s EMIT CHANGES;
-- | K | V |
-- |---|---|

--@test: a persistent query begins where auto.offset.reset says when it is made
INSERT INTO s VALUES ('a', 1);
SET 'auto.offset.reset' = 'latest';
CREATE STREAM later AS SELECT * FROM s;
INSERT INTO s VALUES ('b', 2);
SET 'auto.offset.reset' = 'earliest';
SELECT * FROM later EMIT CHANGES;
-- | K | V |
-- |---|---|
-- | b | 2 |

--@test: of a table every change
CREATE TABLE t AS SELECT k, SUM(v) AS total FROM s GROUP BY k;
INSERT INTO s VALUES ('a', 1);
INSERT INTO s VALUES ('a', 2);
SELECT * FROM t EMIT CHANGES;
-- | K | TOTAL |
-- |---|-------|
-- | a |     1 |
-- | a |     3 |

--@test: with GROUP BY and a window of its own
INSERT INTO s (ROWTIME, k, v) VALUES (500, 'a', 1);
INSERT INTO s (ROWTIME, k, v) VALUES (900, 'a', 2);
INSERT INTO s (ROWTIME, k, v) VALUES (1100, 'a', 4);
SELECT k, WINDOWSTART, WINDOWEND, SUM(v) AS total FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY k EMIT CHANGES;
-- | K | WINDOWSTART | WINDOWEND | TOTAL |
-- |---|-------------|-----------|-------|
-- | a |           0 |      1000 |     1 |
-- | a |           0 |      1000 |     3 |
-- | a |        1000 |      2000 |     4 |

--@test: deletions are told of
CREATE TABLE t (id INT PRIMARY KEY, v STRING) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM t_raw (id INT KEY, v STRING) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='KAFKA');
INSERT INTO t VALUES (1, 'x');
INSERT INTO t_raw (id) VALUES (1);
SELECT * FROM t EMIT CHANGES;
-- | ID | V           |
-- |----|-------------|
-- |  1 | x           |
-- |  1 | <TOMBSTONE> |
