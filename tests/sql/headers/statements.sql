-- Headers of records: all of them, and the last of a name.
CREATE STREAM s (k STRING KEY, v INT, h ARRAY<STRUCT<KEY STRING, VALUE BYTES>> HEADERS)
  WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE STREAM one (k STRING KEY, v INT, a BYTES HEADER('a'), b BYTES HEADER('b'))
  WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE STREAM counted WITH (KAFKA_TOPIC='counted') AS SELECT k, ARRAY_LENGTH(h) AS n, h FROM s;
CREATE STREAM named WITH (KAFKA_TOPIC='named') AS SELECT k, FROM_BYTES(a, 'utf8') AS a, b FROM one;
INSERT INTO s (k, v, h) VALUES ('x', 1, ARRAY[]);
-- error: H
DESCRIBE one;
-- | Field | Type                 |
-- |-------|----------------------|
-- | K     | STRING  (key)        |
-- | V     | INTEGER              |
-- | A     | BYTES  (header('a')) |
-- | B     | BYTES  (header('b')) |
