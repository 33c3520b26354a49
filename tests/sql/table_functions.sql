-- Table functions: several rows from one.
--@skip: restart: a projection keeps no state
CREATE STREAM s (id INT KEY, xs ARRAY<INT>, ys ARRAY<INT>) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');

--@test: EXPLODE gives a row for each element
INSERT INTO s (id, xs) VALUES (1, ARRAY[10, NULL, 30]);
SELECT id, EXPLODE(xs) AS x FROM s EMIT CHANGES;
-- | ID |    X |
-- |----|------|
-- |  1 |   10 |
-- |  1 | NULL |
-- |  1 |   30 |

--@test: several are put side by side, the shorter one filled up
INSERT INTO s VALUES (1, ARRAY[1, 2], ARRAY[9]);
INSERT INTO s (id) VALUES (2);
SELECT EXPLODE(xs) AS x, EXPLODE(ys) AS y FROM s EMIT CHANGES;
-- | X |    Y |
-- |---|------|
-- | 1 |    9 |
-- | 2 | NULL |

--@test: CUBE_EXPLODE replaces every subset by NULL
INSERT INTO s (id, xs) VALUES (1, ARRAY[1, 2]);
SELECT CUBE_EXPLODE(xs) AS c FROM s EMIT CHANGES;
-- | C            |
-- |--------------|
-- | [null, null] |
-- | [null, 2]    |
-- | [1, null]    |
-- | [1, 2]       |

--@test: in a persistent query, before other expressions
CREATE STREAM o AS SELECT id, EXPLODE(xs) * 2 AS twice FROM s;
INSERT INTO s (id, xs) VALUES (1, ARRAY[1, 2]);
SELECT * FROM o EMIT CHANGES;
-- | ID | TWICE |
-- |----|-------|
-- |  1 |     2 |
-- |  1 |     4 |

--@test: of tables, within WHERE and beside aggregates they are refused
CREATE TABLE t (id INT PRIMARY KEY, xs ARRAY<INT>) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE o AS SELECT id, EXPLODE(xs) AS x FROM t;
-- error: able function
CREATE STREAM o AS SELECT id FROM s WHERE EXPLODE(xs) > 1;
-- error: EXPLODE
CREATE TABLE o AS SELECT id, EXPLODE(xs) AS x, COUNT(*) FROM s GROUP BY id;
-- error: able function

--@test: a table function over a join of two streams
CREATE STREAM a (k INT KEY, l ARRAY<INT>) WITH (KAFKA_TOPIC='a', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM b (k INT KEY, v INT) WITH (KAFKA_TOPIC='b', PARTITIONS=1, VALUE_FORMAT='JSON');
INSERT INTO a (k, l, ROWTIME) VALUES (1, ARRAY[1, 2], 5);
INSERT INTO b (k, v, ROWTIME) VALUES (1, 2, 6);
INSERT INTO b (k, v, ROWTIME) VALUES (1, 3, 7);
SELECT a.k AS k, 6 / (EXPLODE(l) - v) AS e FROM a JOIN b WITHIN 1 HOUR ON a.k = b.k EMIT CHANGES;
-- | K | E    |
-- |---|------|
-- | 1 | -6   |
-- | 1 | NULL |
-- | 1 | -3   |
-- | 1 | -6   |
