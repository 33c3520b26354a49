-- SHOW, DESCRIBE, EXPLAIN and PRINT.
CREATE STREAM s (k STRING KEY, v INT, h MAP<STRING, ARRAY<DOUBLE>>) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');

--@test: SHOW STREAMS and SHOW TABLES
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY k;
SHOW STREAMS;
-- unordered
-- | Stream Name         | Kafka Topic                | Key Format | Value Format | Windowed |
-- |---------------------|----------------------------|------------|--------------|----------|
-- | KSQL_PROCESSING_LOG | _millstream_processing_log | KAFKA      | JSON         | false    |
-- | S                   | s                          | KAFKA      | JSON         | false    |
LIST TABLES;
-- | Table Name | Kafka Topic | Key Format | Value Format | Windowed |
-- |------------|-------------|------------|--------------|----------|
-- | T          | T           | KAFKA      | JSON         | true     |

--@test: DESCRIBE
DESCRIBE s;
-- | Field | Type                       |
-- |-------|----------------------------|
-- | K     | STRING  (key)              |
-- | V     | INTEGER                    |
-- | H     | MAP<STRING, ARRAY<DOUBLE>> |
CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(4, 2), st STRUCT<a DATE, `b c` BYTES>) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
DESCRIBE t;
-- | Field | Type                          |
-- |-------|-------------------------------|
-- | ID    | INTEGER  (primary key)        |
-- | D     | DECIMAL(4, 2)                 |
-- | ST    | STRUCT<`A` DATE, `b c` BYTES> |
CREATE TABLE w AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY k;
DESCRIBE w;
-- | Field | Type                                          |
-- |-------|-----------------------------------------------|
-- | K     | STRING  (primary key) (Window type: TUMBLING) |
-- | N     | BIGINT                                        |
DESCRIBE nothing;
-- error: NOTHING

--@test: SHOW QUERIES
CREATE STREAM o WITH (KAFKA_TOPIC='out') AS SELECT k, v FROM s WHERE v > 1;
SELECT * FROM o EMIT CHANGES;
-- | K | V |
-- |---|---|
TERMINATE ALL;
SHOW QUERIES;
-- | Query ID | Query Type | Status | Sink Name | Sink Kafka Topic | Query String |
-- |----------|------------|--------|-----------|------------------|--------------|

--@test: LIST TERMINATED QUERIES
LIST TERMINATED QUERIES;
-- | Query ID | Ended At | Sink | Query String |
-- |----------|----------|------|--------------|
INSERT INTO s WITH (QUERY_ID='one') SELECT * FROM s WHERE v > 8;
INSERT INTO s WITH (QUERY_ID='two') SELECT * FROM s WHERE v > 9;
TERMINATE two;
INSERT INTO s (k, v, ROWTIME) VALUES ('a', 1, 999);
TERMINATE one;
LIST TERMINATED QUERIES;
-- | Query ID | Ended At | Sink | Query String |
-- |----------|----------|------|--------------|
-- | ONE      | 1000     | S    | INSERT INTO s WITH (QUERY_ID='one') SELECT * FROM s WHERE v > 8  |
-- | TWO      | 0        | S    | INSERT INTO s WITH (QUERY_ID='two') SELECT * FROM s WHERE v > 9  |

--@test: SHOW TOPICS
SHOW TOPICS;
-- | Kafka Topic | Partitions | Partition Replicas |
-- |-------------|------------|--------------------|
-- | s           |          1 |                  1 |

--@test: EXPLAIN executes nothing
EXPLAIN CREATE STREAM o AS SELECT * FROM s;
DESCRIBE o;
-- error: O
EXPLAIN nothing;
-- error: NOTHING

--@test: PRINT with INTERVAL and LIMIT
INSERT INTO s (k, v) VALUES ('a', 1);
INSERT INTO s (k, v) VALUES ('b', 2);
INSERT INTO s (k, v) VALUES ('c', 3);
PRINT s FROM BEGINNING INTERVAL 2 LIMIT 2;
-- | record                                                                            |
-- |-----------------------------------------------------------------------------------|
-- | Key format: KAFKA_STRING                                                          |
-- | Value format: JSON or KAFKA_STRING                                                |
-- | rowtime: 1970/01/01 00:00:00.000 Z, key: a, value: {"V":1,"H":null}, partition: 0 |
-- | rowtime: 1970/01/01 00:00:00.002 Z, key: c, value: {"V":3,"H":null}, partition: 0 |
PRINT missing FROM BEGINNING;
-- error: missing

--@test: PRINT of a windowed key
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY k;
INSERT INTO s (ROWTIME, k, v) VALUES (1500, 'a', 1);
PRINT T FROM BEGINNING;
-- | record                                                                            |
-- |-----------------------------------------------------------------------------------|
-- | Key format: TUMBLING(KAFKA_STRING)                                                |
-- | Value format: JSON or KAFKA_STRING                                                |
-- | rowtime: 1970/01/01 00:00:01.500 Z, key: [a@1000/-], value: {"N":1}, partition: 0 |
