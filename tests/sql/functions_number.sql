-- Functions of numbers.
--@skip: restart, simulated: functions of one row, which no state and no log can change
CREATE STREAM one (id INT KEY, missing INT) WITH (KAFKA_TOPIC='one', PARTITIONS=1, VALUE_FORMAT='JSON');
INSERT INTO one (id) VALUES (1);

--@test: functions of numbers
-- ROUND takes ties upwards, TRUNC towards zero
SELECT ROUND(2.5) AS a, ROUND(-2.5) AS b, ROUND(123.456, -1) AS c, TRUNC(-2.7) AS d, TRUNC(12.99, 1) AS e FROM one;
-- | A |  B |       C |  D |     E |
-- |---|----|---------|----|-------|
-- | 3 | -2 | 120.000 | -2 | 12.90 |

-- CEIL, FLOOR, ABS and SIGN keep the type
SELECT CEIL(1.2) AS a, FLOOR(-1.2) AS b, ABS(-5) AS c, ABS(-1.50) AS d, SIGN(-3) AS e, ABS(missing) AS f FROM one;
-- |   A |    B | C |    D |  E | F    |
-- |-----|------|---|------|----|------|
-- | 2.0 | -2.0 | 5 | 1.50 | -1 | NULL |

-- roots, powers and logarithms
SELECT SQRT(9) AS a, SQRT(-1) AS b, CBRT(-27) AS c, POWER(2, 10) AS d, EXP(0) AS e, LN(1) AS f, LN(0) AS g, LOG(10, 100) AS h FROM one;
-- |   A |   B |    C |      D |   E |   F |         G |   H |
-- |-----|-----|------|--------|-----|-----|-----------|-----|
-- | 3.0 | NaN | -3.0 | 1024.0 | 1.0 | 0.0 | -Infinity | 2.0 |

-- angles
SELECT DEGREES(PI()) AS a, SIN(0) AS b, COS(0) AS c, ATAN2(1.0, 0.0) = PI() / 2 AS d, ACOS(2) AS e FROM one;
-- |     A |   B |   C | D    |   E |
-- |-------|-----|-----|------|-----|
-- | 180.0 | 0.0 | 1.0 | true | NaN |

-- GREATEST and LEAST skip NULL
SELECT GREATEST(1, NULL, 7) AS a, LEAST('b', 'a') AS b, GREATEST(1.5, 2.25) AS c FROM one;
-- | A | B |    C |
-- |---|---|------|
-- | 7 | a | 2.25 |

-- GENERATE_SERIES includes both ends
SELECT GENERATE_SERIES(1, 3) AS a, GENERATE_SERIES(5, 1, -2) AS b, GENERATE_SERIES(3, 1) AS c FROM one;
-- | A         | B         | C         |
-- |-----------|-----------|-----------|
-- | [1, 2, 3] | [5, 3, 1] | [3, 2, 1] |

-- bytes as numbers
SELECT INT_FROM_BYTES(TO_BYTES('00000102', 'hex')) AS a, INT_FROM_BYTES(TO_BYTES('00000102', 'hex'), 'LITTLE_ENDIAN') AS b, BIGINT_FROM_BYTES(TO_BYTES('00000102', 'hex')) AS c FROM one;
-- |   A |        B | C    |
-- |-----|----------|------|
-- | 258 | 33619968 | NULL |

-- GEO_DISTANCE between two points of the equator
SELECT GEO_DISTANCE(0, 0, 0, 180) > 20015 AS a, GEO_DISTANCE(0, 0, 0, 180, 'miles') < 12438 AS b, GEO_DISTANCE(91, 0, 0, 0) AS c FROM one;
-- | A    | B    | C    |
-- |------|------|------|
-- | true | true | NULL |
