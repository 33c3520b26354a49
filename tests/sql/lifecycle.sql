-- What becomes of streams, tables and queries: ALTER, DROP, CREATE OR REPLACE, TERMINATE, PAUSE.
CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');

--@test: ALTER adds columns at the end
ALTER STREAM s ADD COLUMN w STRING, ADD x INT;
-- ok: Stream altered
INSERT INTO s VALUES ('a', 1, 'text', 2);
SELECT * FROM s EMIT CHANGES;
-- | K | V | W    | X |
-- |---|---|------|---|
-- | a | 1 | text | 2 |
ALTER STREAM s ADD COLUMN v INT;
-- error: already exists
ALTER TABLE s ADD COLUMN z INT;
-- error: STREAM
CREATE STREAM o AS SELECT * FROM s;
ALTER STREAM o ADD COLUMN z INT;
-- error: CREATE ... AS

--@test: DROP forgets the source, and DELETE TOPIC its records
INSERT INTO s VALUES ('a', 1);
DROP STREAM s;
SELECT * FROM s EMIT CHANGES;
-- error: S
CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
SELECT * FROM s EMIT CHANGES;
-- | K | V |
-- |---|---|
-- | a | 1 |
DROP STREAM s DELETE TOPIC;
ASSERT NOT EXISTS TOPIC s;

--@test: DELETE TOPIC spares what others read
CREATE STREAM s2 (k STRING KEY) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
DROP STREAM s DELETE TOPIC;
-- error: Found other data sources (S2)
DROP STREAM s2;
DROP STREAM s DELETE TOPIC;
SHOW TOPICS;
-- | Kafka Topic | Partitions | Partition Replicas |
-- |-------------|------------|--------------------|

--@test: a topic that is made anew does not bring back old records
CREATE STREAM d AS SELECT k, v + 1 AS w FROM s;
INSERT INTO s VALUES ('a', 1);
DROP STREAM d DELETE TOPIC;
DROP STREAM s DELETE TOPIC;
CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM d AS SELECT k, v + 1 AS w FROM s;
INSERT INTO s VALUES ('a', 5);
SELECT w FROM d EMIT CHANGES;
-- | W |
-- |---|
-- | 6 |

--@test: a topic has the partitions that it has
CREATE STREAM s2 (v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=3, VALUE_FORMAT='JSON');
-- error: it has 1 partitions, the statement says 3
CREATE STREAM s2 (v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');

--@test: what is in use is not dropped
CREATE STREAM o AS SELECT * FROM s;
DROP STREAM s;
-- error: O
DROP TABLE o;
-- error: STREAM
DROP STREAM o;
DROP STREAM s;
DROP STREAM s;
-- error: S
DROP STREAM IF EXISTS s;
-- ok: S

--@test: IF NOT EXISTS leaves what is there
CREATE STREAM IF NOT EXISTS s (other INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
-- ok: exists
CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
-- error: exists

--@test: CREATE OR REPLACE changes a filter from now on
CREATE STREAM o AS SELECT k, v FROM s WHERE v > 10;
INSERT INTO s VALUES ('a', 5);
INSERT INTO s VALUES ('b', 11);
CREATE OR REPLACE STREAM o AS SELECT k, v FROM s WHERE v < 10;
INSERT INTO s VALUES ('c', 6);
INSERT INTO s VALUES ('d', 12);
SELECT * FROM o EMIT CHANGES;
-- | K |  V |
-- |---|----|
-- | b | 11 |
-- | c |  6 |

--@test: CREATE OR REPLACE adds columns
CREATE STREAM o AS SELECT k, v FROM s;
INSERT INTO s VALUES ('a', 5);
CREATE OR REPLACE STREAM o AS SELECT k, v, v * 2 AS twice FROM s;
INSERT INTO s VALUES ('b', 6);
SELECT * FROM o EMIT CHANGES;
-- | K | V | TWICE |
-- |---|---|-------|
-- | a | 5 |  NULL |
-- | b | 6 |    12 |

--@test: CREATE OR REPLACE keeps the state of an aggregation
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WHERE v > 0 GROUP BY k;
INSERT INTO s VALUES ('a', 5);
INSERT INTO s VALUES ('a', -5);
CREATE OR REPLACE TABLE o AS SELECT k, COUNT(*) AS n FROM s WHERE v < 0 GROUP BY k;
INSERT INTO s VALUES ('a', -1);
SELECT * FROM o;
-- | K | N |
-- |---|---|
-- | a | 2 |

--@test: CREATE OR REPLACE refuses to drop columns, and to change keys and joins
CREATE STREAM o AS SELECT k, v FROM s;
CREATE OR REPLACE STREAM o AS SELECT k, UCASE(k) AS upper FROM s;
-- error: V
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
CREATE OR REPLACE TABLE t AS SELECT v, COUNT(*) AS n FROM s GROUP BY v;
-- error: T
CREATE OR REPLACE TABLE o AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
-- error: O

--@test: a terminated query stands still, its stream stays
CREATE STREAM o WITH (KAFKA_TOPIC='o') AS SELECT * FROM s;
INSERT INTO s VALUES ('a', 1);
TERMINATE ALL;
INSERT INTO s VALUES ('b', 2);
SELECT * FROM o EMIT CHANGES;
-- | K | V |
-- |---|---|
-- | a | 1 |
SHOW QUERIES;
-- | Query ID | Query Type | Status | Sink Name | Sink Kafka Topic | Query String |
-- |----------|------------|--------|-----------|------------------|--------------|

--@test: a paused query goes on where it stood
CREATE STREAM o AS SELECT * FROM s;
INSERT INTO s VALUES ('a', 1);
PAUSE ALL;
INSERT INTO s VALUES ('b', 2);
SELECT * FROM o EMIT CHANGES;
-- | K | V |
-- |---|---|
-- | a | 1 |
RESUME ALL;
SELECT * FROM o EMIT CHANGES;
-- | K | V |
-- |---|---|
-- | a | 1 |
-- | b | 2 |
PAUSE nothing;
-- error: NOTHING

--@test: queries may have names
INSERT INTO s WITH (QUERY_ID='copier') SELECT * FROM s WHERE false;
EXPLAIN copier;
TERMINATE copier;
EXPLAIN copier;
-- error: COPIER
INSERT INTO s WITH (QUERY_ID='CSAS_1') SELECT * FROM s WHERE false;
-- error: CSAS_

--@test: the end of a statement's sources
CREATE STREAM o AS SELECT * FROM nothing;
-- error: NOTHING
CREATE STREAM nope WITH (KAFKA_TOPIC='s', PARTITIONS=3) AS SELECT * FROM s;
-- error: 3
