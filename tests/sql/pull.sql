-- Pull queries: what a table holds now, and what lies on a stream.
CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE sums AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s GROUP BY k;
INSERT INTO s VALUES ('ann', 1);
INSERT INTO s VALUES ('bob', 2);
INSERT INTO s VALUES ('cleo', 4);
INSERT INTO s VALUES ('ann', 8);

--@test: by key, and by several keys
SELECT * FROM sums WHERE k = 'ann';
-- | K   | N | TOTAL |
-- |-----|---|-------|
-- | ann | 2 |     9 |
SELECT k, total FROM sums WHERE k IN ('bob', 'cleo', 'dan');
-- | K    | TOTAL |
-- |------|-------|
-- | bob  |     2 |
-- | cleo |     4 |
SELECT k FROM sums WHERE k = 'ann' OR k = 'bob';
-- | K   |
-- |-----|
-- | ann |
-- | bob |

--@test: ranges of keys, and conditions on values
SELECT k FROM sums WHERE k >= 'b' AND k < 'c';
-- | K   |
-- |-----|
-- | bob |
SELECT k FROM sums WHERE k BETWEEN 'ann' AND 'bob';
-- | K   |
-- |-----|
-- | ann |
-- | bob |
SELECT k FROM sums WHERE total > 3 AND n = 1;
-- | K    |
-- |------|
-- | cleo |

--@test: expressions, and LIMIT
SELECT UCASE(k) AS name, total / n AS mean FROM sums WHERE k = 'ann';
-- | NAME | MEAN |
-- |------|------|
-- | ANN  |    4 |
SELECT k FROM sums ORDER BY total DESC LIMIT 2;
-- | K    |
-- |------|
-- | ann  |
-- | cleo |
SELECT k FROM sums LIMIT 0;
-- | K |
-- |---|

--@test: no row where the table has none
SELECT * FROM sums WHERE k = 'dan';
-- | K | N | TOTAL |
-- |---|---|-------|
SELECT * FROM sums WHERE k = '';
-- | K | N | TOTAL |
-- |---|---|-------|

--@test: a table without a query cannot be asked
CREATE TABLE plain (id INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='plain', PARTITIONS=1, VALUE_FORMAT='JSON');
INSERT INTO plain VALUES (1, 2);
SELECT * FROM plain;
-- error: QUERYABLE_PLAIN

--@test: a source table can
CREATE STREAM raw (id INT KEY, v INT) WITH (KAFKA_TOPIC='read', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE SOURCE TABLE read (id INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='read', VALUE_FORMAT='JSON');
INSERT INTO raw VALUES (1, 2);
INSERT INTO raw VALUES (1, 3);
SELECT * FROM read;
-- | ID | V |
-- |----|---|
-- |  1 | 3 |
INSERT INTO read VALUES (1, 2);
-- error: READ

--@test: bounds of windows
CREATE TABLE w AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY k;
INSERT INTO s (ROWTIME, k) VALUES (5000, 'eve');
INSERT INTO s (ROWTIME, k) VALUES (6500, 'eve');
INSERT INTO s (ROWTIME, k) VALUES (7000, 'eve');
SELECT WINDOWSTART, n FROM w WHERE k = 'eve' AND WINDOWSTART >= 6000 AND WINDOWEND <= '1970-01-01T00:00:07';
-- | WINDOWSTART | N |
-- |-------------|---|
-- |        6000 | 1 |
SELECT WINDOWSTART, n FROM w WHERE k = 'eve' AND WINDOWSTART = 5000;
-- | WINDOWSTART | N |
-- |-------------|---|
-- |        5000 | 1 |

--@test: a stream gives all of its records
SELECT k, v FROM s WHERE v > 1;
-- | K    | V |
-- |------|---|
-- | bob  | 2 |
-- | cleo | 4 |
-- | ann  | 8 |

--@test: beyond the dialect: joins, GROUP BY and subqueries over tables
SELECT a.k, b.k AS other FROM sums a JOIN sums b ON a.n > b.n ORDER BY b.k;
-- | K   | other |
-- |-----|-------|
-- | ann | bob   |
-- | ann | cleo  |
SELECT n, COUNT(*) AS keys FROM sums GROUP BY n ORDER BY n;
-- | N | keys |
-- |---|------|
-- | 1 |    2 |
-- | 2 |    1 |
SELECT k FROM sums WHERE total > (SELECT AVG(total) FROM sums);
-- | K   |
-- |-----|
-- | ann |

--@test: what pull queries refuse
SELECT ROWOFFSET FROM sums;
-- error: ROWOFFSET
SELECT nothing FROM sums;
-- error: NOTHING
SELECT * FROM sums WHERE k = NULL;
-- error: NULL
SET 'ksql.query.pull.table.scan.enabled' = 'false';
SELECT * FROM sums;
-- error: can
