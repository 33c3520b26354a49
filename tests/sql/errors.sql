-- What is refused says why, and where.
--@skip: restart: what is refused leaves no state behind
CREATE STREAM s (k STRING KEY, v INT, st STRUCT<a INT>) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');

--@test: syntax errors tell the line and the place
SELECT * FORM s EMIT CHANGES;
-- error: line 6:10
CREATE STREAM select (a INT) WITH (KAFKA_TOPIC='x', PARTITIONS=1, VALUE_FORMAT='JSON');
-- error: select
-- error: reserved

--@test: unknown names bring the nearest ones
SELECT * FROM ss EMIT CHANGES;
-- error: SS
-- error: Did you mean
SELECT vv FROM s EMIT CHANGES;
-- error: VV
-- error: Did you mean
SELECT LENN(k) FROM s EMIT CHANGES;
-- error: LENN

--@test: types that do not compare
SELECT k = 1 FROM s EMIT CHANGES;
-- error: STRING
SELECT st < st FROM s EMIT CHANGES;
-- error: STRUCT
SELECT k FROM s WHERE v EMIT CHANGES;
-- error: boolean
SELECT k FROM s WHERE v LIKE 'a' EMIT CHANGES;
-- error: LIKE

--@test: functions with arguments that they do not have
SELECT LEN(v) FROM s EMIT CHANGES;
-- error: LEN
SELECT SUBSTRING(k) FROM s EMIT CHANGES;
-- error: SUBSTRING
SELECT GREATEST(v, 3000000000) FROM s EMIT CHANGES;
-- error: GREATEST

--@test: what fails in a row is NULL, and logged with the query
CREATE STREAM o AS SELECT k, 10 / v AS part FROM s;
INSERT INTO s (k, v) VALUES ('a', 0);
INSERT INTO s (k, v) VALUES ('b', 5);
SELECT * FROM o EMIT CHANGES;
-- | K | PART |
-- |---|------|
-- | a | NULL |
-- | b |    2 |
SELECT LEVEL, MESSAGE->TYPE AS type, MESSAGE->RECORDPROCESSINGERROR IS NOT NULL AS told FROM KSQL_PROCESSING_LOG;
-- | LEVEL | TYPE | TOLD |
-- |-------|------|------|
-- | ERROR |    1 | true |

--@test: a condition that fails leaves the row out
CREATE STREAM o AS SELECT k, v FROM s WHERE 10 / v > 1;
INSERT INTO s (k, v) VALUES ('a', 0);
INSERT INTO s (k, v) VALUES ('b', 5);
SELECT * FROM o EMIT CHANGES;
-- | K | V |
-- |---|---|
-- | b | 5 |
SELECT MESSAGE->TYPE AS type FROM KSQL_PROCESSING_LOG;
-- | TYPE |
-- |------|
-- |    1 |

--@test: records that cannot be read stop a query that is told to
SET 'ksql.fail.on.deserialization.error' = 'true';
CREATE STREAM raw (line STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='KAFKA');
CREATE STREAM o AS SELECT k, v FROM s;
INSERT INTO raw VALUES ('no JSON');
-- error: stopped

--@test: a case that ends with an error, as ksqlDB's test files say it
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: ghost
SELECT * FROM ghost EMIT CHANGES;
