-- Variables, custom types, settings of a session, ASSERT.
CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');

--@test: variables stand for names, literals and parts of texts
DEFINE source = 's';
DEFINE least = '10';
DEFINE who = 'ann';
INSERT INTO ${source} VALUES ('${who}', ${least});
INSERT INTO s VALUES ('${who}-2', 3);
SELECT k, v FROM ${source} WHERE v >= ${least} EMIT CHANGES;
-- | K   |  V |
-- |-----|----|
-- | ann | 10 |
SHOW VARIABLES;
-- unordered
-- | Variable Name | Value |
-- |---------------|-------|
-- | SOURCE        | s     |
-- | LEAST         | 10    |
-- | WHO           | ann   |

--@test: a variable that is not there, and one that is taken back
DEFINE who = 'ann';
UNDEFINE who;
SELECT ${who} FROM s EMIT CHANGES;
-- error: who
SET 'ksql.variable.substitution.enable' = 'false';
DEFINE who = 'bob';
INSERT INTO s VALUES ('${who}', 1);
SELECT k FROM s EMIT CHANGES;
-- | K      |
-- |--------|
-- | ${who} |

--@test: a value that is no name does not become one
DEFINE name = 's; DROP STREAM s';
SELECT * FROM ${name} EMIT CHANGES;
-- error: s; DROP STREAM s
DEFINE text = 'it''s';
INSERT INTO s VALUES ('${text}', 1);
SELECT k FROM s EMIT CHANGES;
-- | K    |
-- |------|
-- | it's |

--@test: custom types stand for what they name
CREATE TYPE address AS STRUCT<street STRING, zip INT>;
-- ok: ADDRESS
CREATE STREAM people (id INT KEY, home address, others ARRAY<address>) WITH (KAFKA_TOPIC='people', PARTITIONS=1, VALUE_FORMAT='JSON');
INSERT INTO people VALUES (1, STRUCT(street := 'High', zip := 7), ARRAY[STRUCT(street := 'Low', zip := 8)]);
SELECT id, home->street, others[1]->zip FROM people EMIT CHANGES;
-- | ID | STREET | ZIP |
-- |----|--------|-----|
-- |  1 | High   |   8 |
SHOW TYPES;
-- | Type Name | Schema                                 |
-- |-----------|----------------------------------------|
-- | ADDRESS   | STRUCT<`STREET` STRING, `ZIP` INTEGER> |

--@test: a type exists once, and may be dropped while it is used
CREATE TYPE price AS DECIMAL(6, 2);
CREATE TYPE price AS INT;
-- error: already
CREATE TYPE IF NOT EXISTS price AS INT;
-- ok: nothing was changed
CREATE STREAM goods (id INT KEY, p price) WITH (KAFKA_TOPIC='goods', PARTITIONS=1, VALUE_FORMAT='JSON');
INSERT INTO goods VALUES (1, 2.5);
DROP TYPE price;
-- ok: Dropped
SELECT p FROM goods EMIT CHANGES;
-- |    P |
-- |------|
-- | 2.50 |
DESCRIBE goods;
-- | Field | Type           |
-- |-------|----------------|
-- | ID    | INTEGER  (key) |
-- | P     | DECIMAL(6, 2)  |
DROP TYPE price;
-- error: does not exist
DROP TYPE IF EXISTS price;
-- ok: does not exist
CREATE STREAM more (id INT KEY, p price) WITH (KAFKA_TOPIC='more', PARTITIONS=1, VALUE_FORMAT='JSON');
-- error: PRICE

--@test: settings are known, and have values that they can have
SET 'auto.offset.reset' = 'latest';
UNSET 'auto.offset.reset';
SET 'auto.offset.resett' = 'latest';
-- error: auto.offset.reset
SET 'auto.offset.reset' = 'sometime';
-- error: sometime
SET 'ksql.streams.auto.offset.reset' = 'earliest';

--@test: ASSERT of topics, streams and records
ASSERT TOPIC s WITH (PARTITIONS=1);
ASSERT TOPIC s WITH (PARTITIONS=2) TIMEOUT 0 SECONDS;
-- error: PARTITIONS
ASSERT NOT EXISTS TOPIC nothing;
ASSERT STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
ASSERT STREAM s (k STRING KEY, v BIGINT);
-- error: BIGINT
INSERT INTO s VALUES ('a', 1);
INSERT INTO s (k) VALUES ('b');
ASSERT VALUES s (k, v) VALUES ('a', 1);
ASSERT VALUES s (k, v) VALUES ('b', 2);
-- error: 'b'
ASSERT VALUES s (k, v) VALUES ('b', NULL);
ASSERT VALUES s (k) VALUES ('c');
-- error: no further record
