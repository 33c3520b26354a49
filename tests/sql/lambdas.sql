-- Lambdas: TRANSFORM, FILTER and REDUCE over arrays and maps.
--@skip: restart, simulated: functions of one row, which no state and no log can change
CREATE STREAM one (id INT KEY, n INT, none ARRAY<INT>) WITH (KAFKA_TOPIC='one', PARTITIONS=1, VALUE_FORMAT='JSON');
INSERT INTO one (id, n) VALUES (1, 10);

--@test: lambdas
-- TRANSFORM an array, with a column of the row in the body
SELECT TRANSFORM(ARRAY[1, 2], x => x + n) AS a, TRANSFORM(none, x => x + 1) AS b FROM one;
-- | A        | B    |
-- |----------|------|
-- | [11, 12] | NULL |

-- TRANSFORM a map
SELECT TRANSFORM(MAP('a' := 1), (k, v) => UCASE(k), (k, v) => v * 2) AS a FROM one;
-- | A        |
-- |----------|
-- | {"A": 2} |

-- FILTER arrays and maps
SELECT FILTER(ARRAY[1, 5, 9], x => x > 4) AS a, FILTER(MAP('p' := 1, 'q' := 2), (k, v) => v = 2) AS b FROM one;
-- | A      | B        |
-- |--------|----------|
-- | [5, 9] | {"q": 2} |

-- REDUCE arrays and maps
SELECT REDUCE(ARRAY[1, 2, 3], 10, (s, x) => s + x) AS a, REDUCE(none, 7, (s, x) => s + x) AS b, REDUCE(MAP('a' := 1, 'b' := 2), 0, (s, k, v) => s + v) AS c FROM one;
-- |  A | B | C |
-- |----|---|---|
-- | 16 | 7 | 3 |

-- lambdas within lambdas
SELECT TRANSFORM(ARRAY[ARRAY[1, 2], ARRAY[3]], a => REDUCE(a, 0, (s, x) => s + x)) AS sums FROM one;
-- | SUMS   |
-- |--------|
-- | [3, 3] |

-- an error in the body makes the call NULL
SELECT TRANSFORM(ARRAY[1, 0], x => 6 / x) AS a FROM one;
-- | A    |
-- |------|
-- | NULL |

-- a lambda outside of a call is refused
SELECT x => x FROM one;
-- error: =>

--@test: ksql.lambdas.enabled switches lambdas off
SET 'ksql.lambdas.enabled' = 'false';
CREATE STREAM t AS SELECT id, FILTER(ARRAY[1], x => x > 0) AS a FROM one;
-- error: ambda
