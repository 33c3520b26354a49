-- The aggregate functions.
CREATE STREAM s (k STRING KEY, v INT, t STRING) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');

--@test: COUNT of rows and of values
CREATE TABLE o AS SELECT k, COUNT(*) AS n, COUNT(v) AS there, COUNT_DISTINCT(v) AS different FROM s GROUP BY k;
INSERT INTO s (k, v) VALUES ('a', 1);
INSERT INTO s (k) VALUES ('a');
INSERT INTO s (k, v) VALUES ('a', 1);
SELECT * FROM o;
-- | K | N | THERE | DIFFERENT |
-- |---|---|-------|-----------|
-- | a | 3 |     2 |         1 |

--@test: SUM, AVG, MIN and MAX skip NULL
CREATE TABLE o AS SELECT k, SUM(v) AS s, AVG(v) AS a, MIN(v) AS lo, MAX(v) AS hi FROM s GROUP BY k;
INSERT INTO s (k) VALUES ('a');
INSERT INTO s (k, v) VALUES ('a', 3);
INSERT INTO s (k, v) VALUES ('a', 4);
SELECT * FROM o EMIT CHANGES;
-- | K | S |   A |   LO |   HI |
-- |---|---|-----|------|------|
-- | a | 0 | 0.0 | NULL | NULL |
-- | a | 3 | 3.0 |    3 |    3 |
-- | a | 7 | 3.5 |    3 |    4 |

--@test: SUM of INTEGER wraps
CREATE TABLE o AS SELECT k, SUM(v) AS s FROM s GROUP BY k;
INSERT INTO s (k, v) VALUES ('a', 2147483647);
INSERT INTO s (k, v) VALUES ('a', 1);
SELECT * FROM o;
-- | K |           S |
-- |---|-------------|
-- | a | -2147483648 |

--@test: EARLIEST_BY_OFFSET and LATEST_BY_OFFSET
CREATE TABLE o AS SELECT k, EARLIEST_BY_OFFSET(v) AS e, LATEST_BY_OFFSET(v) AS l, LATEST_BY_OFFSET(v, 2) AS two, LATEST_BY_OFFSET(v, false) AS n FROM s GROUP BY k;
INSERT INTO s (k, v) VALUES ('a', 1);
INSERT INTO s (k, v) VALUES ('a', 4);
INSERT INTO s (k, v) VALUES ('a', 6);
INSERT INTO s (k) VALUES ('a');
SELECT * FROM o;
-- | K | E | L | TWO    | N    |
-- |---|---|---|--------|------|
-- | a | 1 | 6 | [4, 6] | NULL |

--@test: TOPK and TOPKDISTINCT
CREATE TABLE o AS SELECT k, TOPK(v, 2) AS top, TOPKDISTINCT(v, 2) AS different FROM s GROUP BY k;
INSERT INTO s (k, v) VALUES ('a', 3);
INSERT INTO s (k, v) VALUES ('a', 1);
INSERT INTO s (k, v) VALUES ('a', 3);
SELECT * FROM o;
-- | K | TOP    | DIFFERENT |
-- |---|--------|-----------|
-- | a | [3, 3] | [3, 1]    |

--@test: COLLECT_LIST, COLLECT_SET and HISTOGRAM
CREATE TABLE o AS SELECT k, COLLECT_LIST(t) AS l, COLLECT_SET(t) AS s, HISTOGRAM(t) AS h FROM s GROUP BY k;
INSERT INTO s (k, t) VALUES ('x', 'a');
INSERT INTO s (k, t) VALUES ('x', 'b');
INSERT INTO s (k, t) VALUES ('x', 'a');
SELECT * FROM o;
-- | K | L               | S          | H                |
-- |---|-----------------|------------|------------------|
-- | x | ["a", "b", "a"] | ["a", "b"] | {"a": 2, "b": 1} |

--@test: ATTR is the value that all rows have
CREATE TABLE o AS SELECT k, ATTR(v) AS a FROM s GROUP BY k;
INSERT INTO s (k, v) VALUES ('x', 5);
INSERT INTO s (k, v) VALUES ('x', 5);
INSERT INTO s (k, v) VALUES ('x', 6);
SELECT * FROM o EMIT CHANGES;
-- | K |    A |
-- |---|------|
-- | x |    5 |
-- | x |    5 |
-- | x | NULL |

--@test: STDDEV_SAMP is a variance, STDDEV_SAMPLE its root
CREATE TABLE o AS SELECT k, STDDEV_SAMP(v) AS variance, ROUND(STDDEV_SAMPLE(v), 4) AS deviation, CORRELATION(v, v) AS c FROM s GROUP BY k;
INSERT INTO s (k, v) VALUES ('x', 2);
INSERT INTO s (k, v) VALUES ('x', 4);
SELECT * FROM o;
-- | K | VARIANCE | DEVIATION |   C |
-- |---|----------|-----------|-----|
-- | x |      2.0 |    1.4142 | 1.0 |

--@test: aggregates of tables take values away again
CREATE TABLE t (id INT PRIMARY KEY, g STRING, v INT) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE o AS SELECT g, SUM(v) AS s, AVG(v) AS a, COLLECT_LIST(v) AS l FROM t GROUP BY g;
INSERT INTO t VALUES (1, 'x', 4);
INSERT INTO t VALUES (2, 'x', 8);
INSERT INTO t VALUES (1, 'x', 6);
SELECT * FROM o;
-- | G |  S |   A | L      |
-- |---|----|-----|--------|
-- | x | 14 | 7.0 | [8, 6] |
