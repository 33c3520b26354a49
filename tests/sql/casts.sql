-- CAST: which types it knows, and what becomes of values.
--@skip: restart, simulated: functions of one row, which no state and no log can change
CREATE STREAM one (id INT KEY) WITH (KAFKA_TOPIC='one', PARTITIONS=1, FORMAT='JSON');
INSERT INTO one VALUES (1);

--@test: CAST
-- numbers to whole numbers are cut, and BIGINT wraps
SELECT CAST(2.9 AS INT) AS a, CAST(-2.9 AS INT) AS b, CAST(4294967297 AS INT) AS c, CAST(1e300 AS INT) AS d FROM one;
-- | A |  B | C |          D |
-- |---|----|---|------------|
-- | 2 | -2 | 1 | 2147483647 |

-- numbers to DECIMAL are rounded half up
SELECT CAST(1.25 AS DECIMAL(3, 1)) AS a, CAST(-1.25 AS DECIMAL(3, 1)) AS b, CAST(7 AS DECIMAL(4, 2)) AS c FROM one;
-- |   A |    B |    C |
-- |-----|------|------|
-- | 1.3 | -1.3 | 7.00 |

-- to STRING
SELECT CAST(12 AS STRING) AS i, CAST(1.50 AS STRING) AS d, CAST(1e10 AS STRING) AS e, CAST(true AS STRING) AS b,
  CAST(CAST('2024-01-02' AS DATE) AS STRING) AS day FROM one;
-- | I    | D      | E      | B      | DAY          |
-- |------|--------|--------|--------|--------------|
-- | "12" | "1.50" | 1.0E10 | "true" | "2024-01-02" |

-- STRING to BOOLEAN takes every beginning of true and yes
SELECT CAST('t' AS BOOLEAN) AS t, CAST('YES' AS BOOLEAN) AS y, CAST('no' AS BOOLEAN) AS n, CAST('maybe' AS BOOLEAN) AS m FROM one;
-- | T    | Y    | N     | M     |
-- |------|------|-------|-------|
-- | true | true | false | false |

-- STRING to numbers
SELECT CAST(' 42 ' AS INT) AS i, CAST('1.256' AS DECIMAL(4, 2)) AS d, CAST('1e3' AS DOUBLE) AS e FROM one;
-- |  I |    D |      E |
-- |----|------|--------|
-- | 42 | 1.26 | 1000.0 |

-- STRING to dates and times may be partial
SELECT CAST('2024' AS DATE) AS d, CAST('13:45' AS TIME) AS t, CAST('2024-03-01T12' AS TIMESTAMP) AS ts FROM one;
-- | D          | T        | TS                      |
-- |------------|----------|-------------------------|
-- | 2024-01-01 | 13:45:00 | 2024-03-01T12:00:00.000 |

-- DATE and TIMESTAMP into each other
SELECT CAST(CAST('2024-03-01' AS DATE) AS TIMESTAMP) AS ts, CAST(CAST('2024-03-01T12:30' AS TIMESTAMP) AS DATE) AS d,
  CAST(CAST('2024-03-01T12:30' AS TIMESTAMP) AS TIME) AS t FROM one;
-- | TS                      | D          | T        |
-- |-------------------------|------------|----------|
-- | 2024-03-01T00:00:00.000 | 2024-03-01 | 12:30:00 |

-- elements of ARRAY, MAP and STRUCT are cast one by one
SELECT CAST(ARRAY[1, 2] AS ARRAY<STRING>) AS a, CAST(MAP('x' := '7') AS MAP<STRING, INT>) AS m,
  CAST(STRUCT(p := 1, q := 2) AS STRUCT<q STRING, r INT>) AS s FROM one;
-- | A          | M        | S                     |
-- |------------|----------|-----------------------|
-- | ["1", "2"] | {"x": 7} | {"Q": "2", "R": null} |

-- NULL is NULL of every type
SELECT CAST(NULL AS INT) AS i, CAST(NULL AS ARRAY<STRING>) AS a FROM one;
-- | I    | A    |
-- |------|------|
-- | NULL | NULL |

-- casts that do not exist are refused
SELECT CAST(id AS DATE) FROM one;
-- error: DATE
SELECT CAST(CAST('12:00' AS TIME) AS DATE) FROM one;
-- error: TIME
SELECT CAST(true AS INT) FROM one;
-- error: BOOLEAN

--@test: a number too large for a DECIMAL is NULL, and logged
SELECT CAST(id + 999 AS DECIMAL(2, 0)) AS big FROM one EMIT CHANGES;
-- | BIG  |
-- |------|
-- | NULL |
SELECT MESSAGE->TYPE AS type FROM KSQL_PROCESSING_LOG;
-- | TYPE |
-- |------|
-- |    1 |

--@test: text that is no number is NULL
CREATE STREAM texts (id INT KEY, t STRING) WITH (KAFKA_TOPIC='texts', PARTITIONS=1, FORMAT='JSON');
INSERT INTO texts VALUES (1, '12');
INSERT INTO texts VALUES (2, 'twelve');
INSERT INTO texts VALUES (3, 'NaN');
SELECT id, CAST(t AS INT) AS i FROM texts;
-- | ID |    I |
-- |----|------|
-- |  1 |   12 |
-- |  2 | NULL |
-- |  3 | NULL |
SELECT id, CAST(t AS DOUBLE) AS e FROM texts;
-- | ID |    E |
-- |----|------|
-- |  1 | 12.0 |
-- |  2 | NULL |
-- |  3 | NULL |
