-- Functions of JSON texts.
--@skip: restart, simulated: functions of one row, which no state and no log can change
CREATE STREAM docs (id INT KEY, doc STRING) WITH (KAFKA_TOPIC='docs', PARTITIONS=1, FORMAT='JSON');
INSERT INTO docs VALUES (1, '{"a":{"b":[5,6]},"c":"text"}');

--@test: functions of JSON texts
-- EXTRACTJSONFIELD gives scalars as text and the rest as JSON
SELECT EXTRACTJSONFIELD(doc, '$.a.b[1]') AS a, EXTRACTJSONFIELD(doc, '$.c') AS b, EXTRACTJSONFIELD(doc, '$.a') AS c, EXTRACTJSONFIELD(doc, '$.none') AS d FROM docs;
-- | A | B    | C           | D    |
-- |---|------|-------------|------|
-- | 6 | text | {"b":[5,6]} | NULL |

-- IS_JSON_STRING
SELECT IS_JSON_STRING('[1]') AS a, IS_JSON_STRING('12') AS b, IS_JSON_STRING('') AS c, IS_JSON_STRING('abc') AS d, IS_JSON_STRING(CAST(NULL AS STRING)) AS e FROM docs;
-- | A    | B    | C     | D     | E     |
-- |------|------|-------|-------|-------|
-- | true | true | false | false | false |

-- JSON arrays
SELECT JSON_ARRAY_LENGTH('[1,2,3]') AS a, JSON_ARRAY_LENGTH('{}') AS b, JSON_ARRAY_CONTAINS('[1,"2"]', 1) AS c, JSON_ARRAY_CONTAINS('[1,"2"]', 2) AS d, JSON_ARRAY_CONTAINS('[1,"2"]', '2') AS e, JSON_ITEMS('[{"x":1},2]') AS f FROM docs;
-- | A | B    | C    | D     | E    | F                  |
-- |---|------|------|-------|------|--------------------|
-- | 3 | NULL | true | false | true | ["{\"x\":1}", "2"] |

-- JSON objects
SELECT JSON_KEYS(doc) AS a, JSON_RECORDS('{"x":1,"y":[2]}') AS b, JSON_KEYS('[1]') AS c FROM docs;
-- | A          | B                      | C    |
-- |------------|------------------------|------|
-- | ["a", "c"] | {"x": "1", "y": "[2]"} | NULL |

-- JSON_CONCAT merges objects and appends to arrays
SELECT JSON_CONCAT('{"a":1}', '{"b":2}') AS a, JSON_CONCAT('[1]', '[2]') AS b, JSON_CONCAT('{"a":1}', '[2]') AS c, JSON_CONCAT('[1]', CAST(NULL AS STRING)) AS d FROM docs;
-- | A             | B     | C           | D    |
-- |---------------|-------|-------------|------|
-- | {"a":1,"b":2} | [1,2] | [{"a":1},2] | NULL |

-- TO_JSON_STRING sorts fields
SELECT TO_JSON_STRING(STRUCT(b := 1, a := 'x')) AS a, TO_JSON_STRING(ARRAY[1, 2]) AS b, TO_JSON_STRING(CAST(NULL AS INT)) AS c, TO_JSON_STRING(CAST('2024-01-02' AS DATE)) AS d FROM docs;
-- | A               | B     | C      | D                |
-- |-----------------|-------|--------|------------------|
-- | {"A":"x","B":1} | [1,2] | "null" | "\"2024-01-02\"" |
