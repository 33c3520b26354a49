-- PARTITION BY: a stream by another key.
--@skip: restart: a stream by another key keeps no state
CREATE STREAM s (a INT KEY, b INT, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, FORMAT='JSON');

--@test: the new key leaves the value, the old one enters it
CREATE STREAM o AS SELECT b, a, v FROM s PARTITION BY b;
INSERT INTO s VALUES (7, 3, 1);
DESCRIBE o;
-- | Field | Type           |
-- |-------|----------------|
-- | B     | INTEGER  (key) |
-- | A     | INTEGER        |
-- | V     | INTEGER        |
PRINT O FROM BEGINNING;
-- | record                                                                         |
-- |--------------------------------------------------------------------------------|
-- | Key format: JSON or KAFKA_STRING                                               |
-- | Value format: JSON or KAFKA_STRING                                             |
-- | rowtime: 1970/01/01 00:00:00.000 Z, key: 3, value: {"A":7,"V":1}, partition: 0 |

--@test: by an expression, which has a name of its own
CREATE STREAM o AS SELECT b + v AS total, a FROM s PARTITION BY b + v;
INSERT INTO s VALUES (7, 3, 1);
SELECT * FROM o EMIT CHANGES;
-- | TOTAL | A |
-- |-------|---|
-- |     4 | 7 |

--@test: by several columns
CREATE STREAM o AS SELECT b, v, a FROM s PARTITION BY b, v;
INSERT INTO s VALUES (7, 3, 1);
PRINT O FROM BEGINNING;
-- | record                                                                               |
-- |--------------------------------------------------------------------------------------|
-- | Key format: JSON or KAFKA_STRING                                                     |
-- | Value format: JSON or KAFKA_STRING                                                   |
-- | rowtime: 1970/01/01 00:00:00.000 Z, key: {"B":3,"V":1}, value: {"A":7}, partition: 0 |

--@test: by NULL the stream has no key
CREATE STREAM o AS SELECT a, b, v FROM s PARTITION BY NULL;
INSERT INTO s VALUES (7, 3, 1);
SELECT * FROM o EMIT CHANGES;
-- | A | B | V |
-- |---|---|---|
-- | 7 | 3 | 1 |
SHOW STREAMS;
-- unordered
-- | Stream Name         | Kafka Topic                | Key Format | Value Format | Windowed |
-- |---------------------|----------------------------|------------|--------------|----------|
-- | KSQL_PROCESSING_LOG | _millstream_processing_log | KAFKA      | JSON         | false    |
-- | O                   | O                          | NONE       | JSON         | false    |
-- | S                   | s                          | JSON       | JSON         | false    |

--@test: a row whose new key is NULL is kept
CREATE STREAM o AS SELECT b, a FROM s PARTITION BY b;
INSERT INTO s (a, v) VALUES (7, 1);
SELECT * FROM o EMIT CHANGES;
-- | B    | A |
-- |------|---|
-- | NULL | 7 |

--@test: of a field of a struct
CREATE STREAM nested (k INT KEY, s STRUCT<id INT>) WITH (KAFKA_TOPIC='nested', PARTITIONS=1, FORMAT='JSON');
CREATE STREAM o AS SELECT s->id, k FROM nested PARTITION BY s->id;
INSERT INTO nested VALUES (1, STRUCT(id := 9));
SELECT * FROM o EMIT CHANGES;
-- | ID | K |
-- |----|---|
-- |  9 | 1 |

--@test: refused of tables, and beside GROUP BY
CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE o AS SELECT v, id FROM t PARTITION BY v;
-- error: PARTITION BY
CREATE STREAM o AS SELECT a, b FROM s PARTITION BY b, NULL;
-- error: NULL
