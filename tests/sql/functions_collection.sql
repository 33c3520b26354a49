-- Functions of arrays, maps and structs.
--@skip: restart, simulated: functions of one row, which no state and no log can change
CREATE STREAM one (id INT KEY, none ARRAY<INT>) WITH (KAFKA_TOPIC='one', PARTITIONS=1, VALUE_FORMAT='JSON');
INSERT INTO one (id) VALUES (1);

--@test: functions of arrays and maps
-- set operations on arrays keep the order of the first
SELECT ARRAY_DISTINCT(ARRAY[2, 1, 2]) AS a, ARRAY_UNION(ARRAY[2, 1], ARRAY[1, 3]) AS b, ARRAY_INTERSECT(ARRAY[3, 1, 1, 2], ARRAY[1, 3]) AS c, ARRAY_EXCEPT(ARRAY[1, 2, 2, 3], ARRAY[3]) AS d FROM one;
-- | A      | B         | C      | D      |
-- |--------|-----------|--------|--------|
-- | [2, 1] | [2, 1, 3] | [3, 1] | [1, 2] |

-- ARRAY_CONCAT takes one NULL for nothing
SELECT ARRAY_CONCAT(ARRAY[1, 2], ARRAY[2]) AS a, ARRAY_CONCAT(ARRAY[1], none) AS b, ARRAY_CONCAT(none, none) AS c FROM one;
-- | A         | B   | C    |
-- |-----------|-----|------|
-- | [1, 2, 2] | [1] | NULL |

-- ARRAY_SORT puts NULL last in both directions
SELECT ARRAY_SORT(ARRAY[3, NULL, 1]) AS a, ARRAY_SORT(ARRAY[3, NULL, 1], 'desc') AS b, ARRAY_SORT(ARRAY[1], 'up') AS c FROM one;
-- | A            | B            | C    |
-- |--------------|--------------|------|
-- | [1, 3, null] | [3, 1, null] | NULL |

-- ARRAY_CONTAINS, ARRAY_LENGTH, ARRAY_REMOVE
SELECT ARRAY_CONTAINS(ARRAY[1, 2], 2) AS a, ARRAY_CONTAINS(none, 2) AS b, ARRAY_LENGTH(ARRAY[1, NULL]) AS c, ARRAY_REMOVE(ARRAY[1, 2, 1], 1) AS d FROM one;
-- | A    | B     | C | D   |
-- |------|-------|---|-----|
-- | true | false | 2 | [2] |

-- ARRAY_MAX, ARRAY_MIN and ARRAY_JOIN
SELECT ARRAY_MAX(ARRAY[1, NULL, 3]) AS a, ARRAY_MIN(ARRAY['b', 'B']) AS b, ARRAY_JOIN(ARRAY['x', NULL, 'z'], '/') AS c, ARRAY_JOIN(ARRAY[1, 2]) AS d FROM one;
-- | A | B | C        | D     |
-- |---|---|----------|-------|
-- | 3 | B | x/null/z | "1,2" |

-- SLICE counts from 1 and includes both ends
SELECT SLICE(ARRAY[10, 20, 30, 40], 2, 3) AS a, SLICE(ARRAY[1], 2, 5) AS b FROM one;
-- | A        | B    |
-- |----------|------|
-- | [20, 30] | NULL |

-- maps from arrays, and back
SELECT AS_MAP(ARRAY['a', 'b'], ARRAY[1]) AS a, MAP_KEYS(MAP('x' := 1)) AS b, MAP_VALUES(MAP('x' := 1)) AS c, ENTRIES(MAP('b' := 2, 'a' := 1), true) AS d FROM one;
-- | A                   | B     | C   | D                                        |
-- |---------------------|-------|-----|------------------------------------------|
-- | {"a": 1, "b": null} | ["x"] | [1] | [{"K": "a", "V": 1}, {"K": "b", "V": 2}] |

-- MAP_UNION lets the right side win
SELECT MAP_UNION(MAP('a' := 1, 'b' := 2), MAP('b' := 3)) AS a FROM one;
-- | A                |
-- |------------------|
-- | {"a": 1, "b": 3} |
