-- Formats: what lies on a topic, and what is read from it.
--@skip: restart: reading and writing keep no state
--@test: JSON is read by name, in any case, and what is missing is NULL
CREATE STREAM raw (line STRING) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='KAFKA');
CREATE STREAM s (a INT, b STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
INSERT INTO raw VALUES ('{"a": "12", "b": {"p":1}, "more": true}');
INSERT INTO raw VALUES ('{"A": 13}');
SELECT * FROM s EMIT CHANGES;
-- |  A | B       |
-- |----|---------|
-- | 12 | {"p":1} |
-- | 13 | NULL    |

--@test: JSON that does not fit the types is left out, and logged
CREATE STREAM raw (line STRING) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='KAFKA');
CREATE STREAM s (a INT, d DECIMAL(4, 2)) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE STREAM o AS SELECT * FROM s;
INSERT INTO raw VALUES ('{"A": true}');
INSERT INTO raw VALUES ('{"D": 1.234}');
INSERT INTO raw VALUES ('no JSON');
INSERT INTO raw VALUES ('{"A": 1, "D": 1.2}');
SELECT * FROM o EMIT CHANGES;
-- | A |    D |
-- |---|------|
-- | 1 | 1.20 |
SELECT MESSAGE->TYPE AS type FROM KSQL_PROCESSING_LOG;
-- | TYPE |
-- |------|
-- |    0 |
-- |    0 |
-- |    0 |

--@test: DELIMITED has columns in their order, with quotes where needed
CREATE STREAM s (k INT KEY, a DECIMAL(4, 2), b STRING, c DATE, d BIGINT)
  WITH (KAFKA_TOPIC='s', PARTITIONS=1, FORMAT='DELIMITED');
CREATE STREAM raw (line STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='KAFKA');
INSERT INTO s VALUES (7, 1.5, 'x,y', '2021-03-04', NULL);
SELECT * FROM raw EMIT CHANGES;
-- | LINE              |
-- |-------------------|
-- | 1.50,"x,y",18690, |
SELECT * FROM s EMIT CHANGES;
-- | K |    A | B   | C          | D    |
-- |---|------|-----|------------|------|
-- | 7 | 1.50 | x,y | 2021-03-04 | NULL |

--@test: DELIMITED with another delimiter, and with too many fields
CREATE STREAM raw (line STRING) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='KAFKA');
CREATE STREAM s (a INT, b STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='DELIMITED', VALUE_DELIMITER='TAB');
CREATE STREAM t (a INT, b STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='DELIMITED', VALUE_DELIMITER=';');
INSERT INTO raw VALUES ('1;x');
INSERT INTO raw VALUES ('1;x;y');
SELECT * FROM t EMIT CHANGES;
-- | A | B |
-- |---|---|
-- | 1 | x |
SELECT * FROM s EMIT CHANGES;
-- | A | B |
-- |---|---|

--@test: KAFKA is one value in Kafka's own bytes
CREATE STREAM s (k BIGINT KEY, v DOUBLE) WITH (KAFKA_TOPIC='s', PARTITIONS=1, FORMAT='KAFKA');
INSERT INTO s VALUES (7, 1.5);
SELECT * FROM s EMIT CHANGES;
-- | K |   V |
-- |---|-----|
-- | 7 | 1.5 |
PRINT s FROM BEGINNING;
-- | record                                                                               |
-- |--------------------------------------------------------------------------------------|
-- | Key format: KAFKA_BIGINT or KAFKA_DOUBLE                                             |
-- | Value format: KAFKA_BIGINT or KAFKA_DOUBLE                                           |
-- | rowtime: 1970/01/01 00:00:00.000 Z, key: 7, value: 4609434218613702656, partition: 0 |
CREATE STREAM two (a INT, b INT) WITH (KAFKA_TOPIC='two', PARTITIONS=1, VALUE_FORMAT='KAFKA');
-- error: KAFKA
CREATE TABLE o AS SELECT v, COUNT(*) AS n FROM s GROUP BY v;
-- error: KAFKA

--@test: a single value wrapped, and bare
CREATE STREAM wrapped (v ARRAY<INT>) WITH (KAFKA_TOPIC='wrapped', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM bare (v ARRAY<INT>) WITH (KAFKA_TOPIC='bare', PARTITIONS=1, VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=false);
CREATE STREAM lines (line STRING) WITH (KAFKA_TOPIC='wrapped', VALUE_FORMAT='KAFKA');
CREATE STREAM bare_lines (line STRING) WITH (KAFKA_TOPIC='bare', VALUE_FORMAT='KAFKA');
INSERT INTO wrapped VALUES (ARRAY[1, NULL]);
INSERT INTO bare VALUES (ARRAY[1, NULL]);
SELECT * FROM lines EMIT CHANGES;
-- | LINE           |
-- |----------------|
-- | {"V":[1,null]} |
SELECT * FROM bare_lines EMIT CHANGES;
-- | LINE     |
-- |----------|
-- | [1,null] |

--@test: MSGPACK keys and values
CREATE STREAM s (k INT KEY, g STRING KEY, b BYTES, d DECIMAL(6, 2), t TIMESTAMP, l ARRAY<DOUBLE>, m MAP<STRING, DATE>)
  WITH (KAFKA_TOPIC='s', PARTITIONS=1, FORMAT='MSGPACK');
CREATE STREAM keys (k INT KEY, v STRING) WITH (KAFKA_TOPIC='keys', PARTITIONS=1, FORMAT='MSGPACK');
CREATE STREAM raw (v BYTES) WITH (KAFKA_TOPIC='keys', KEY_FORMAT='NONE', VALUE_FORMAT='KAFKA');
CREATE TABLE counted AS SELECT k, COUNT(*) AS n FROM keys WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY k;
INSERT INTO s VALUES (1, 'a', TO_BYTES('ff', 'hex'), 1.50, '2024-01-02T03:04:05.678', ARRAY[1, NULL], MAP('x' := '1969-12-31'));
INSERT INTO s (k, g) VALUES (2, NULL);
INSERT INTO keys (k, v, ROWTIME) VALUES (1, 'one', 5);
INSERT INTO keys (k, v, ROWTIME) VALUES (1, NULL, 6);
SELECT * FROM s EMIT CHANGES;
-- | K | G    | B    |    D | T                       | L           | M                   |
-- |---|------|------|------|-------------------------|-------------|---------------------|
-- | 1 | a    | /w== | 1.50 | 2024-01-02T03:04:05.678 | [1.0, null] | {"x": "1969-12-31"} |
-- | 2 | NULL | NULL | NULL | NULL                    | NULL        | NULL                |
SELECT FROM_BYTES(v, 'hex') AS h FROM raw EMIT CHANGES;
-- | H              |
-- |----------------|
-- | 81A156A36F6E65 |
-- | 81A156C0       |
SELECT k, WINDOWSTART, n FROM counted;
-- | K | WINDOWSTART | N |
-- |---|-------------|---|
-- | 1 |           0 | 2 |

--@test: from one format into another
CREATE STREAM s (k INT KEY, a INT, b STRING) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM o WITH (VALUE_FORMAT='DELIMITED', VALUE_DELIMITER='|') AS SELECT * FROM s;
CREATE STREAM lines (line STRING) WITH (KAFKA_TOPIC='O', VALUE_FORMAT='KAFKA');
INSERT INTO s VALUES (1, 2, 'x');
SELECT * FROM lines EMIT CHANGES;
-- | LINE  |
-- |-------|
-- | "2|x" |

--@test: TIMESTAMP makes a column the time of the rows
CREATE STREAM s (k INT KEY, happened STRING) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON',
  TIMESTAMP='happened', TIMESTAMP_FORMAT='yyyy-MM-dd HH:mm:ss X');
CREATE STREAM n (k INT KEY, happened BIGINT) WITH (KAFKA_TOPIC='n', PARTITIONS=1, VALUE_FORMAT='JSON', TIMESTAMP='happened');
INSERT INTO s VALUES (1, '1970-01-01 00:00:05 Z');
INSERT INTO s VALUES (2, 'never');
INSERT INTO n VALUES (3, 777);
SELECT k, ROWTIME FROM s EMIT CHANGES;
-- | K | ROWTIME |
-- |---|---------|
-- | 1 |    5000 |
SELECT k, ROWTIME FROM n EMIT CHANGES;
-- | K | ROWTIME |
-- |---|---------|
-- | 3 |     777 |

--@test: properties that do not fit
CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1);
-- error: VALUE_FORMAT
CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, FORMAT='JSON', VALUE_FORMAT='JSON');
-- error: FORMAT
CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON', VALUE_DELIMITER=';');
-- error: JSON
CREATE STREAM s (a INT, b INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=true);
-- error: WRAP_SINGLE_VALUE
CREATE STREAM s (a ARRAY<INT>, b INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='DELIMITED');
-- error: DELIMITED
CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON', COLOUR='red');
-- error: COLOUR
