-- Tumbling, hopping and session windows; late records; EMIT FINAL.
CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');

--@test: a tumbling window includes its start and excludes its end
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY k;
INSERT INTO s (ROWTIME, k) VALUES (0, 'a');
INSERT INTO s (ROWTIME, k) VALUES (9999, 'a');
INSERT INTO s (ROWTIME, k) VALUES (10000, 'a');
SELECT * FROM o;
-- | K | WINDOWSTART | WINDOWEND | N |
-- |---|-------------|-----------|---|
-- | a |           0 |     10000 | 2 |
-- | a |       10000 |     20000 | 1 |

--@test: windows are aligned to the epoch
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 DAY) GROUP BY k;
INSERT INTO s (ROWTIME, k) VALUES ('2024-02-29T23:59:59.999', 'a');
INSERT INTO s (ROWTIME, k) VALUES ('2024-03-01T00:00:00', 'a');
SELECT k, FROM_UNIXTIME(WINDOWSTART) AS start, n FROM o;
-- | K | START                   | N |
-- |---|-------------------------|---|
-- | a | 2024-02-29T00:00:00.000 | 1 |
-- | a | 2024-03-01T00:00:00.000 | 1 |

--@test: a record that is later than the grace period is dropped
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY k;
INSERT INTO s (ROWTIME, k) VALUES (1000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (9000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (12000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (5000, 'a');
SELECT k, WINDOWSTART AS start, n FROM o EMIT CHANGES;
-- | K | START | N |
-- |---|-------|---|
-- | a |     0 | 1 |
-- | a |     0 | 2 |
-- | a | 10000 | 1 |

--@test: a late record within the grace period counts
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY k;
INSERT INTO s (ROWTIME, k) VALUES (1000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (14999, 'a');
INSERT INTO s (ROWTIME, k) VALUES (9000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (15000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (9500, 'a');
SELECT k, WINDOWSTART AS start, n FROM o;
-- | K | START | N |
-- |---|-------|---|
-- | a |     0 | 2 |
-- | a | 10000 | 2 |

--@test: without GRACE PERIOD a record may be a day late
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k;
INSERT INTO s (ROWTIME, k) VALUES (0, 'a');
INSERT INTO s (ROWTIME, k) VALUES (86399999, 'a');
INSERT INTO s (ROWTIME, k) VALUES (1, 'a');
INSERT INTO s (ROWTIME, k) VALUES (86400000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (2, 'a');
SELECT n FROM o WHERE k = 'a' AND WINDOWSTART = 0;
-- | N |
-- |---|
-- | 2 |

--@test: stream time is that of all keys
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY k;
INSERT INTO s (ROWTIME, k) VALUES (11000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (5000, 'b');
SELECT * FROM o;
-- | K | WINDOWSTART | WINDOWEND | N |
-- |---|-------------|-----------|---|
-- | a |       10000 |     20000 | 1 |

--@test: late records are told of in the processing log
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY k;
INSERT INTO s (ROWTIME, k) VALUES (11000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (5000, 'b');
SELECT LEVEL FROM KSQL_PROCESSING_LOG;
-- | LEVEL |
-- |-------|
-- | WARN  |

--@test: a hopping window counts a row in each window that holds it
CREATE TABLE o AS SELECT k, SUM(v) AS total FROM s WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS) GROUP BY k;
INSERT INTO s (ROWTIME, k, v) VALUES (7000, 'a', 1);
INSERT INTO s (ROWTIME, k, v) VALUES (12000, 'a', 2);
SELECT * FROM o;
-- | K | WINDOWSTART | WINDOWEND | TOTAL |
-- |---|-------------|-----------|-------|
-- | a |           0 |     10000 |     1 |
-- | a |        5000 |     15000 |     3 |
-- | a |       10000 |     20000 |     2 |

--@test: of hopping windows only those that are closed miss a late row
CREATE TABLE o AS SELECT k, SUM(v) AS total
  FROM s WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY k;
INSERT INTO s (ROWTIME, k, v) VALUES (11000, 'a', 1);
INSERT INTO s (ROWTIME, k, v) VALUES (7000, 'a', 4);
SELECT * FROM o;
-- | K | WINDOWSTART | WINDOWEND | TOTAL |
-- |---|-------------|-----------|-------|
-- | a |        5000 |     15000 |     5 |
-- | a |       10000 |     20000 |     1 |

--@test: a session grows with each row within its gap
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW SESSION (30 SECONDS) GROUP BY k;
INSERT INTO s (ROWTIME, k) VALUES (10, 'a');
INSERT INTO s (ROWTIME, k) VALUES (11, 'a');
INSERT INTO s (ROWTIME, k) VALUES (40000, 'a');
SELECT k, WINDOWSTART AS start, WINDOWEND AS last, n FROM o EMIT CHANGES;
-- | K |       START |        LAST |           N |
-- |---|-------------|-------------|-------------|
-- | a |          10 |          10 |           1 |
-- | a | <TOMBSTONE> | <TOMBSTONE> | <TOMBSTONE> |
-- | a |          10 |          11 |           2 |
-- | a |       40000 |       40000 |           1 |

--@test: a row between two sessions makes them one
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW SESSION (10 SECONDS) GROUP BY k;
INSERT INTO s (ROWTIME, k) VALUES (0, 'a');
INSERT INTO s (ROWTIME, k) VALUES (15000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (8000, 'a');
SELECT * FROM o WHERE k = 'a';
-- | K | WINDOWSTART | WINDOWEND | N |
-- |---|-------------|-----------|---|
-- | a |           0 |     15000 | 3 |

--@test: the gap of a session is included
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW SESSION (10 SECONDS) GROUP BY k;
INSERT INTO s (ROWTIME, k) VALUES (0, 'a');
INSERT INTO s (ROWTIME, k) VALUES (10000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (20001, 'a');
SELECT * FROM o WHERE k = 'a';
-- | K | WINDOWSTART | WINDOWEND | N |
-- |---|-------------|-----------|---|
-- | a |           0 |     10000 | 2 |
-- | a |       20001 |     20001 | 1 |

--@test: EMIT FINAL gives each window once, when it is closed
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY k EMIT FINAL;
INSERT INTO s (ROWTIME, k) VALUES (1000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (9000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (10000, 'a');
SELECT k, WINDOWSTART AS start, n, ROWTIME FROM o EMIT CHANGES;
-- | K | START | N | ROWTIME |
-- |---|-------|---|---------|
-- | a |     0 | 2 |    9000 |

--@test: EMIT FINAL waits for the grace period
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY k EMIT FINAL;
INSERT INTO s (ROWTIME, k) VALUES (1000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (14999, 'b');
SELECT k, n FROM o EMIT CHANGES;
-- | K | N |
-- |---|---|
INSERT INTO s (ROWTIME, k) VALUES (2000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (15000, 'b');
SELECT k, n FROM o EMIT CHANGES;
-- | K | N |
-- |---|---|
-- | a | 2 |

--@test: EMIT FINAL gives every window that a jump in time closes
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY k EMIT FINAL;
INSERT INTO s (ROWTIME, k) VALUES (0, 'a');
INSERT INTO s (ROWTIME, k) VALUES (999, 'b');
INSERT INTO s (ROWTIME, k) VALUES (60000, 'c');
INSERT INTO s (ROWTIME, k) VALUES (120000, 'd');
SELECT k, WINDOWSTART AS start, n FROM o EMIT CHANGES;
-- unordered
-- | K | START | N |
-- |---|-------|---|
-- | a |     0 | 1 |
-- | b |     0 | 1 |
-- | c | 60000 | 1 |

--@test: EMIT FINAL of sessions waits for the gap
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW SESSION (10 SECONDS) GROUP BY k EMIT FINAL;
INSERT INTO s (ROWTIME, k) VALUES (1000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (4000, 'a');
INSERT INTO s (ROWTIME, k) VALUES (14000, 'b');
SELECT k, n FROM o EMIT CHANGES;
-- | K | N |
-- |---|---|
INSERT INTO s (ROWTIME, k) VALUES (14001, 'b');
SELECT k, n FROM o EMIT CHANGES;
-- | K | N |
-- |---|---|
-- | a | 2 |

--@test: WINDOWSTART and WINDOWEND in the projection
CREATE TABLE o AS SELECT k, WINDOWSTART AS ws, WINDOWEND AS we, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 2 SECONDS) GROUP BY k;
INSERT INTO s (ROWTIME, k) VALUES (2500, 'a');
SELECT k, ws, we, n FROM o;
-- | K |   WS |   WE | N |
-- |---|------|------|---|
-- | a | 2000 | 4000 | 1 |

--@test: a windowed topic can be read as a windowed stream
CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 30 SECONDS) GROUP BY k;
CREATE STREAM w (k STRING KEY, n BIGINT) WITH (KAFKA_TOPIC='O', VALUE_FORMAT='JSON', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='30 SECONDS');
INSERT INTO s (ROWTIME, k) VALUES (31000, 'a');
SELECT * FROM w EMIT CHANGES;
-- | K | WINDOWSTART | WINDOWEND | N |
-- |---|-------------|-----------|---|
-- | a |       30000 |     60000 | 1 |

--@test: windows that cannot be are refused
CREATE TABLE o AS SELECT k, COUNT(*) FROM s WINDOW HOPPING (SIZE 1 SECOND, ADVANCE BY 2 SECONDS) GROUP BY k;
-- error: ADVANCE
CREATE TABLE o AS SELECT k, COUNT(*) FROM s WINDOW TUMBLING (SIZE 10 SECONDS, RETENTION 10 SECONDS, GRACE PERIOD 1 SECOND) GROUP BY k;
-- error: RETENTION
CREATE TABLE o AS SELECT k, COUNT(*) FROM s GROUP BY k EMIT FINAL;
-- error: FINAL
CREATE STREAM o AS SELECT k, v FROM s WINDOW TUMBLING (SIZE 1 SECOND);
-- error: GROUP BY
