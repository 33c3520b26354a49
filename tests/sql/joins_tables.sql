-- Joins of tables, by primary and by foreign key.
CREATE TABLE a (id INT PRIMARY KEY, x STRING, fk INT) WITH (KAFKA_TOPIC='a', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE b (id INT PRIMARY KEY, y STRING) WITH (KAFKA_TOPIC='b', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM a_raw (id INT KEY, v STRING) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='KAFKA');
CREATE STREAM b_raw (id INT KEY, v STRING) WITH (KAFKA_TOPIC='b', VALUE_FORMAT='KAFKA');

--@test: an inner join has a row while both sides have one
CREATE TABLE o AS SELECT a.id, x, y FROM a JOIN b ON a.id = b.id;
INSERT INTO a (id, x) VALUES (1, 'A');
INSERT INTO b VALUES (1, 'B');
INSERT INTO b VALUES (1, 'C');
INSERT INTO a_raw (id) VALUES (1);
SELECT * FROM o EMIT CHANGES;
-- | A_ID | X           | Y           |
-- |------|-------------|-------------|
-- |    1 | A           | B           |
-- |    1 | A           | C           |
-- |    1 | <TOMBSTONE> | <TOMBSTONE> |
SELECT * FROM o;
-- | A_ID | X | Y |
-- |------|---|---|

--@test: a left join has a row for each on the left
CREATE TABLE o AS SELECT a.id, x, y FROM a LEFT JOIN b ON a.id = b.id;
INSERT INTO a (id, x) VALUES (1, 'A');
INSERT INTO b VALUES (1, 'B');
INSERT INTO b VALUES (2, 'none');
INSERT INTO b_raw (id) VALUES (1);
SELECT * FROM o EMIT CHANGES;
-- | A_ID | X | Y    |
-- |------|---|------|
-- |    1 | A | NULL |
-- |    1 | A | B    |
-- |    1 | A | NULL |

--@test: a right join has a row for each on the right
CREATE TABLE o AS SELECT b.id AS id, x, y FROM a RIGHT JOIN b ON a.id = b.id;
INSERT INTO a (id, x) VALUES (1, 'A');
INSERT INTO b VALUES (1, 'B');
INSERT INTO b VALUES (2, 'C');
SELECT * FROM o;
-- | ID | X    | Y |
-- |----|------|---|
-- |  1 | A    | B |
-- |  2 | NULL | C |

--@test: a full join has a row for each on either side
CREATE TABLE o AS SELECT ROWKEY AS id, x, y FROM a FULL OUTER JOIN b ON a.id = b.id;
INSERT INTO a (id, x) VALUES (1, 'A');
INSERT INTO b VALUES (2, 'B');
INSERT INTO b VALUES (1, 'C');
INSERT INTO b_raw (id) VALUES (2);
SELECT * FROM o;
-- | ID | X | Y |
-- |----|---|---|
-- |  1 | A | C |

--@test: the time of a joined row is the later one
CREATE TABLE o AS SELECT a.id, x, y FROM a JOIN b ON a.id = b.id;
INSERT INTO a (ROWTIME, id, x) VALUES (100, 1, 'A');
INSERT INTO b (ROWTIME, id, y) VALUES (300, 1, 'B');
SELECT A_ID, ROWTIME FROM o EMIT CHANGES;
-- | A_ID | ROWTIME |
-- |------|---------|
-- |    1 |     300 |

--@test: a foreign key follows the row that it points to
CREATE TABLE o AS SELECT a.id, x, y FROM a JOIN b ON a.fk = b.id;
INSERT INTO b VALUES (0, 'm');
INSERT INTO a VALUES (1, 'A', 0);
INSERT INTO a VALUES (2, 'B', 0);
SELECT * FROM o;
-- | A_ID | X | Y |
-- |------|---|---|
-- |    1 | A | m |
-- |    2 | B | m |
INSERT INTO b VALUES (0, 'n');
SELECT * FROM o;
-- | A_ID | X | Y |
-- |------|---|---|
-- |    1 | A | n |
-- |    2 | B | n |
INSERT INTO b_raw (id) VALUES (0);
SELECT * FROM o;
-- | A_ID | X | Y |
-- |------|---|---|

--@test: a foreign key may change
CREATE TABLE o AS SELECT a.id, y FROM a JOIN b ON a.fk = b.id;
INSERT INTO b VALUES (7, 'seven');
INSERT INTO b VALUES (8, 'eight');
INSERT INTO a VALUES (1, 'A', 7);
INSERT INTO a VALUES (1, 'A', 8);
INSERT INTO a VALUES (1, 'A', 9);
SELECT * FROM o EMIT CHANGES;
-- | A_ID | Y           |
-- |------|-------------|
-- |    1 | seven       |
-- |    1 | eight       |
-- |    1 | <TOMBSTONE> |

--@test: a left join by foreign key keeps rows without a partner
CREATE TABLE o AS SELECT a.id, y FROM a LEFT JOIN b ON a.fk = b.id;
INSERT INTO a VALUES (1, 'A', 7);
INSERT INTO a (id, x) VALUES (2, 'no key');
INSERT INTO b VALUES (7, 'seven');
SELECT * FROM o;
-- | A_ID | Y     |
-- |------|-------|
-- |    1 | seven |
-- |    2 | NULL  |

--@test: a foreign key that is NULL meets nothing in an inner join
CREATE TABLE o AS SELECT a.id, y FROM a JOIN b ON a.fk = b.id;
INSERT INTO b VALUES (7, 'seven');
INSERT INTO a (id, x) VALUES (2, 'no key');
SELECT * FROM o EMIT CHANGES;
-- | A_ID | Y |
-- |------|---|

--@test: what tables cannot do
CREATE TABLE o AS SELECT * FROM a JOIN b WITHIN 1 SECOND ON a.id = b.id;
-- error: WITHIN
CREATE TABLE o AS SELECT a.id, y FROM a RIGHT JOIN b ON a.fk = b.id;
-- error: RIGHT
CREATE TABLE o AS SELECT * FROM a JOIN b ON a.id = b.id AND a.x = b.y;
-- error: AND
