-- Filters and projections of streams and tables.
CREATE STREAM orders (id INT KEY, item STRING, amount DOUBLE)
  WITH (KAFKA_TOPIC='orders', PARTITIONS=1, VALUE_FORMAT='JSON');

--@test: WHERE keeps the rows for which it is true
CREATE STREAM large AS SELECT * FROM orders WHERE amount > 10;
INSERT INTO orders VALUES (1, 'tea', 12);
INSERT INTO orders VALUES (2, 'jam', 3);
INSERT INTO orders (id, item) VALUES (3, 'ham');
INSERT INTO orders VALUES (4, 'tea', 11);
SELECT * FROM large EMIT CHANGES;
-- | ID | ITEM | AMOUNT |
-- |----|------|--------|
-- |  1 | tea  |   12.0 |
-- |  4 | tea  |   11.0 |

--@test: expressions without a name are numbered
INSERT INTO orders VALUES (1, 'tea', 2);
SELECT id, amount * 2, UCASE(item), amount AS again FROM orders EMIT CHANGES;
-- | ID | KSQL_COL_0 | KSQL_COL_1 | AGAIN |
-- |----|------------|------------|-------|
-- |  1 |        4.0 | TEA        |   2.0 |

--@test: * has the key first, and no pseudo columns
CREATE STREAM late_key (a INT, k INT KEY) WITH (KAFKA_TOPIC='late_key', PARTITIONS=1, VALUE_FORMAT='JSON');
INSERT INTO late_key (a, k) VALUES (1, 2);
SELECT * FROM late_key EMIT CHANGES;
-- | K | A |
-- |---|---|
-- | 2 | 1 |

--@test: ROWTIME, ROWPARTITION and ROWOFFSET
INSERT INTO orders (ROWTIME, id) VALUES (1000, 1);
INSERT INTO orders (ROWTIME, id) VALUES (2000, 2);
SELECT id, ROWTIME, ROWPARTITION FROM orders EMIT CHANGES;
-- | ID | ROWTIME | ROWPARTITION |
-- |----|---------|--------------|
-- |  1 |    1000 |            0 |
-- |  2 |    2000 |            0 |
SELECT id FROM orders WHERE ROWTIME >= '1970-01-01T00:00:02' EMIT CHANGES;
-- | ID |
-- |----|
-- |  2 |

--@test: ROWOFFSET counts the records of a partition
--@skip: simulated: on this log the end of each transaction takes an offset, as on Kafka
INSERT INTO orders (id) VALUES (1);
INSERT INTO orders (id) VALUES (2);
SELECT id, ROWOFFSET FROM orders EMIT CHANGES;
-- | ID | ROWOFFSET |
-- |----|-----------|
-- |  1 |         0 |
-- |  2 |         1 |

--@test: CASE takes the first branch that is true
INSERT INTO orders VALUES (1, 'tea', 1);
INSERT INTO orders VALUES (2, 'jam', 5);
INSERT INTO orders (id) VALUES (3);
SELECT id, CASE WHEN amount < 2 THEN 'small' WHEN amount < 9 THEN 'fair' END AS kind FROM orders EMIT CHANGES;
-- | ID | KIND  |
-- |----|-------|
-- |  1 | small |
-- |  2 | fair  |
-- |  3 | NULL  |

--@test: the branches of CASE have one type
SELECT CASE WHEN amount < 2 THEN 1 ELSE 'x' END FROM orders EMIT CHANGES;
-- error: CASE

--@test: a table's filter deletes the rows that leave it
CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE large AS SELECT * FROM t WHERE v > 10;
INSERT INTO t VALUES (1, 11);
INSERT INTO t VALUES (2, 3);
INSERT INTO t VALUES (1, 5);
SELECT * FROM large EMIT CHANGES;
-- | ID |           V |
-- |----|-------------|
-- |  1 |          11 |
-- |  1 | <TOMBSTONE> |
SELECT * FROM large;
-- | ID | V |
-- |----|---|

--@test: a filter of a table tells of no row that was never there
CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE large AS SELECT * FROM t WHERE v > 10;
INSERT INTO t VALUES (1, 3);
INSERT INTO t VALUES (1, 4);
PRINT LARGE FROM BEGINNING;
-- | record |
-- |--------|

--@test: the key has to be in the projection
CREATE STREAM o AS SELECT item FROM orders;
-- error: ID
CREATE STREAM o AS SELECT id AS nr, AS_VALUE(id) AS id_too, item FROM orders;
INSERT INTO orders VALUES (7, 'tea', 1);
SELECT * FROM o EMIT CHANGES;
-- | NR | ID_TOO | ITEM |
-- |----|--------|------|
-- |  7 |      7 | tea  |

--@test: quoted names keep their case
CREATE STREAM `Mixed` (`Id` INT KEY, `a b` STRING) WITH (KAFKA_TOPIC='mixed', PARTITIONS=1, VALUE_FORMAT='JSON');
INSERT INTO `Mixed` VALUES (1, 'x');
SELECT `Id`, `a b`, "a b" AS plain FROM `Mixed` EMIT CHANGES;
-- | Id | a b | PLAIN |
-- |----|-----|-------|
-- |  1 | x   | x     |
SELECT * FROM mixed EMIT CHANGES;
-- error: MIXED

--@test: LIMIT ends a push query
INSERT INTO orders VALUES (1, 'tea', 1);
INSERT INTO orders VALUES (2, 'jam', 5);
SELECT id FROM orders EMIT CHANGES LIMIT 1;
-- | ID |
-- |----|
-- |  1 |
SELECT id FROM orders EMIT CHANGES LIMIT 0;
-- | ID |
-- |----|

--@test: aliases of sources
INSERT INTO orders VALUES (1, 'tea', 1);
SELECT o.id, o.item FROM orders AS o WHERE o.amount = 1 EMIT CHANGES;
-- | ID | ITEM |
-- |----|------|
-- |  1 | tea  |

--@test: a row with a NULL value passes a projection and no filter
CREATE STREAM raw (id INT KEY, v STRING) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='KAFKA');
CREATE STREAM copied AS SELECT * FROM orders;
CREATE STREAM filtered AS SELECT * FROM orders WHERE id = 1;
INSERT INTO raw (id) VALUES (1);
ASSERT NULL VALUES copied (id) KEY (1);
PRINT FILTERED FROM BEGINNING;
-- | record |
-- |--------|
