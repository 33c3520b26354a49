-- Arithmetic as Java does it.
--@skip: restart, simulated: functions of one row, which no state and no log can change
CREATE STREAM n (id INT KEY, i INT, b BIGINT, e DOUBLE, d DECIMAL(4, 2), zero INT)
  WITH (KAFKA_TOPIC='n', PARTITIONS=1, FORMAT='JSON');
INSERT INTO n VALUES (1, 2147483647, 9223372036854775807, 7.5, 1.25, 0);

--@test: arithmetic
-- whole numbers wrap
SELECT i + 1 AS i, i * 2 AS twice, b + 1 AS b, i + b AS both FROM n;
-- |           I | TWICE |                    B |                 BOTH |
-- |-------------|-------|----------------------|----------------------|
-- | -2147483648 |    -2 | -9223372036854775808 | -9223372034707292162 |

-- division of whole numbers cuts, and % has the sign of the dividend
SELECT 7 / 2 AS a, -7 / 2 AS b, 7 % 3 AS c, -7 % 3 AS d FROM n;
-- | A |  B | C |  D |
-- |---|----|---|----|
-- | 3 | -3 | 1 | -1 |

-- with a DOUBLE everything is DOUBLE
SELECT e + d AS a, e * 2 AS b, e - i AS c FROM n;
-- |    A |    B |             C |
-- |------|------|---------------|
-- | 8.75 | 15.0 | -2147483639.5 |

-- unary minus and precedence
SELECT 2 + 3 * 4 AS a, (2 + 3) * 4 AS b, -d AS c, 10 - 4 - 3 AS d FROM n;
-- |  A |  B |     C | D |
-- |----|----|-------|---|
-- | 14 | 20 | -1.25 | 3 |

-- + joins texts, and other operands are refused
SELECT 'a' + 'b' AS ab FROM n;
-- | AB |
-- |----|
-- | ab |
SELECT true + 1 FROM n;
-- error: BOOLEAN
SELECT i + NULL FROM n;
-- error: NULL

--@test: division by zero is NULL and logged, of DOUBLE it is infinite
SELECT i / zero AS i, e / 0 AS e FROM n EMIT CHANGES;
-- | I    |        E |
-- |------|----------|
-- | NULL | Infinity |
SELECT MESSAGE->TYPE AS type FROM KSQL_PROCESSING_LOG;
-- | TYPE |
-- |------|
-- |    1 |

--@test: DECIMAL results have the precision that they need
CREATE STREAM r AS SELECT id, d + d AS plus, d * d AS times, d / d AS over, d % d AS rest, d + 1 AS more FROM n;
DESCRIBE r;
-- | Field | Type           |
-- |-------|----------------|
-- | ID    | INTEGER  (key) |
-- | PLUS  | DECIMAL(5, 2)  |
-- | TIMES | DECIMAL(9, 4)  |
-- | OVER  | DECIMAL(11, 7) |
-- | REST  | DECIMAL(4, 2)  |
-- | MORE  | DECIMAL(13, 2) |
SELECT plus, times, over, rest, more FROM r;
-- | PLUS |  TIMES |      OVER | REST | MORE |
-- |------|--------|-----------|------|------|
-- | 2.50 | 1.5625 | 1.0000000 | 0.00 | 2.25 |
