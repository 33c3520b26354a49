-- Keys of streams and tables, and deletions.
--@test: a table keeps the last row of each key
CREATE TABLE t (id INT PRIMARY KEY, v STRING) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE kept AS SELECT * FROM t;
INSERT INTO t VALUES (1, 'old');
INSERT INTO t VALUES (2, 'other');
INSERT INTO t VALUES (1, 'new');
SELECT * FROM kept;
-- | ID | V     |
-- |----|-------|
-- |  1 | new   |
-- |  2 | other |

--@test: a record without value deletes a row, and the next one brings it back
CREATE TABLE t (id INT PRIMARY KEY, v STRING) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM raw (id INT KEY, v STRING) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='KAFKA');
CREATE TABLE kept AS SELECT * FROM t;
INSERT INTO t VALUES (1, 'old');
INSERT INTO raw (id) VALUES (1);
SELECT * FROM kept;
-- | ID | V |
-- |----|---|
INSERT INTO t VALUES (1, 'again');
SELECT * FROM kept;
-- | ID | V     |
-- |----|-------|
-- |  1 | again |
ASSERT VALUES kept (id, v) VALUES (1, 'old');
ASSERT NULL VALUES kept (id) KEY (1);
ASSERT VALUES kept (id, v) VALUES (1, 'again');

--@test: a deletion of a row that is not there changes nothing
CREATE TABLE t (id INT PRIMARY KEY, v STRING) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM raw (id INT KEY, v STRING) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='KAFKA');
CREATE TABLE counts AS SELECT v, COUNT(*) AS n FROM t GROUP BY v;
INSERT INTO raw (id) VALUES (1);
INSERT INTO t VALUES (1, 'x');
SELECT * FROM counts EMIT CHANGES;
-- | V | N |
-- |---|---|
-- | x | 1 |

--@test: a stream may have no key, or a key that is NULL
CREATE STREAM keyless (v INT) WITH (KAFKA_TOPIC='keyless', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM keyed (k STRING KEY, v INT) WITH (KAFKA_TOPIC='keyed', PARTITIONS=1, VALUE_FORMAT='JSON');
INSERT INTO keyless VALUES (1);
INSERT INTO keyed (v) VALUES (2);
SELECT * FROM keyless EMIT CHANGES;
-- | V |
-- |---|
-- | 1 |
SELECT * FROM keyed EMIT CHANGES;
-- | K    | V |
-- |------|---|
-- | NULL | 2 |

--@test: a table drops records without key, and logs them
CREATE STREAM raw (id INT KEY, v INT) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
CREATE TABLE kept AS SELECT * FROM t;
INSERT INTO raw (v) VALUES (1);
INSERT INTO raw VALUES (7, 2);
SELECT * FROM kept;
-- | ID | V |
-- |----|---|
-- |  7 | 2 |
SELECT LEVEL FROM KSQL_PROCESSING_LOG;
-- | LEVEL |
-- |-------|
-- | WARN  |

--@test: keys of several columns
CREATE TABLE t (a INT PRIMARY KEY, b STRING PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', PARTITIONS=1, FORMAT='JSON');
CREATE TABLE kept AS SELECT * FROM t;
INSERT INTO t VALUES (1, 'x', 10);
INSERT INTO t VALUES (1, 'y', 20);
INSERT INTO t VALUES (1, 'x', 30);
SELECT * FROM kept;
-- | A | B |  V |
-- |---|---|----|
-- | 1 | x | 30 |
-- | 1 | y | 20 |
SELECT v FROM kept WHERE a = 1 AND b = 'y';
-- |  V |
-- |----|
-- | 20 |

--@test: keys may be structs, but hold no maps
CREATE TABLE t (k STRUCT<a INT> PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', PARTITIONS=1, FORMAT='JSON');
CREATE TABLE kept AS SELECT * FROM t;
INSERT INTO t VALUES (STRUCT(a := 1), 10);
INSERT INTO t VALUES (STRUCT(a := 1), 20);
SELECT * FROM kept;
-- | K        |  V |
-- |----------|----|
-- | {"A": 1} | 20 |
CREATE STREAM m (k MAP<STRING, INT> KEY, v INT) WITH (KAFKA_TOPIC='m', PARTITIONS=1, FORMAT='JSON');
-- error: MAP

--@test: wrong declarations of keys
CREATE TABLE t (id INT KEY, v INT) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
-- error: PRIMARY KEY
CREATE STREAM s (id INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');
-- error: KEY
CREATE TABLE t (v INT) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
-- error: PRIMARY KEY
CREATE STREAM s (a INT, a STRING) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');
-- error: A
CREATE STREAM s (ROWTIME BIGINT, a STRING) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');
-- error: ROWTIME
