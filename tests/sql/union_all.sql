-- UNION ALL of streams.
CREATE STREAM a (k INT KEY, v INT, l ARRAY<INT>) WITH (KAFKA_TOPIC='a', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM b (id INT KEY, w INT, s STRING) WITH (KAFKA_TOPIC='b', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM wide (k INT KEY, v INT) WITH (KAFKA_TOPIC='wide', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');

--@test: the rows of both, with the names of the first
CREATE STREAM o AS SELECT k, v AS x FROM a UNION ALL SELECT id, w * 10 FROM b WHERE w > 0;
INSERT INTO a (ROWTIME, k, v) VALUES (1, 1, 1);
INSERT INTO b (ROWTIME, id, w) VALUES (2, 1, 2);
INSERT INTO b (ROWTIME, id, w) VALUES (3, 1, 0);
INSERT INTO a (ROWTIME, k, v) VALUES (4, 2, 3);
SELECT k, x, ROWTIME FROM o EMIT CHANGES;
-- | K | X  | ROWTIME |
-- |---|----|---------|
-- | 1 |  1 |       1 |
-- | 1 | 20 |       2 |
-- | 2 |  3 |       4 |

--@test: a push query of three branches
INSERT INTO a (ROWTIME, k, v, l) VALUES (1, 1, 1, ARRAY[7, 8]);
INSERT INTO b (ROWTIME, id, w, s) VALUES (2, 1, 2, 'x');
SELECT k, v, 'a' AS of FROM a UNION ALL SELECT id, w, s FROM b EMIT CHANGES;
-- | K | V | OF |
-- |---|---|----|
-- | 1 | 1 | a  |
-- | 1 | 2 | x  |
SELECT k, EXPLODE(l) AS v FROM a UNION ALL SELECT id, w FROM b EMIT CHANGES;
-- | K | V |
-- |---|---|
-- | 1 | 7 |
-- | 1 | 8 |
-- | 1 | 2 |

--@test: joins and new keys in branches
CREATE STREAM c (k INT KEY, v INT) WITH (KAFKA_TOPIC='c', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM o AS SELECT a.k AS k, v + w AS x FROM a JOIN b WITHIN 1 HOUR ON a.k = b.id
  UNION ALL SELECT v, k FROM c PARTITION BY v;
INSERT INTO a (ROWTIME, k, v) VALUES (1, 1, 1);
INSERT INTO c (ROWTIME, k, v) VALUES (2, 5, 1);
INSERT INTO b (ROWTIME, id, w) VALUES (3, 1, 2);
INSERT INTO c (ROWTIME, k, v) VALUES (4, 6, 2);
SELECT k, x FROM o EMIT CHANGES;
-- | K | X |
-- |---|---|
-- | 1 | 5 |
-- | 1 | 3 |
-- | 2 | 6 |

--@test: a stream without a key
CREATE STREAM o AS SELECT v AS x FROM a PARTITION BY NULL UNION ALL SELECT w FROM b PARTITION BY NULL;
INSERT INTO a (ROWTIME, k, v) VALUES (1, 1, 1);
INSERT INTO b (ROWTIME, id, w) VALUES (2, 1, 2);
SELECT * FROM o EMIT CHANGES;
-- | X |
-- |---|
-- | 1 |
-- | 2 |

--@test: INSERT INTO, and an aggregation of the result
CREATE STREAM o (k INT KEY, x BIGINT) WITH (KAFKA_TOPIC='o', PARTITIONS=1, VALUE_FORMAT='JSON');
INSERT INTO o SELECT k, v AS x FROM a UNION ALL SELECT id, w FROM b;
CREATE TABLE sums AS SELECT k, SUM(x) AS total FROM o GROUP BY k;
INSERT INTO a (ROWTIME, k, v) VALUES (1, 1, 1);
INSERT INTO b (ROWTIME, id, w) VALUES (2, 1, 2);
SELECT * FROM sums;
-- | K | TOTAL |
-- |---|-------|
-- | 1 |     3 |

--@test: what does not fit together
CREATE STREAM o AS SELECT k, v FROM a UNION ALL SELECT k, v FROM t;
-- error: UNION ALL is not supported for tables
CREATE TABLE o AS SELECT k, COUNT(*) FROM a GROUP BY k UNION ALL SELECT k, v FROM t;
-- error: UNION ALL is not supported for tables
CREATE STREAM o AS SELECT k, v FROM a UNION ALL SELECT id, s FROM b;
-- error: INTEGER, INTEGER is not INTEGER, STRING
CREATE STREAM o AS SELECT k, v FROM a UNION ALL SELECT id FROM b;
-- error: INTEGER, INTEGER is not INTEGER
CREATE STREAM o AS SELECT k, v FROM a UNION ALL SELECT w, id FROM b;
-- error: must have their key columns in the same places
CREATE STREAM o AS SELECT k, v FROM a UNION ALL SELECT v, k FROM a PARTITION BY v;
-- error: reads topic a in two places
CREATE STREAM o AS SELECT k, v FROM a UNION ALL SELECT k, v FROM wide;
-- error: cannot be read in one query by UNION ALL, because their numbers of partitions differ. `A` partitions = 1; `WIDE` partitions = 2.
SELECT k, v FROM a UNION ALL SELECT id, w FROM b EMIT FINAL;
-- error: EMIT FINAL
SELECT k, v FROM a UNION SELECT id, w FROM b EMIT CHANGES;
-- error: SELECT
