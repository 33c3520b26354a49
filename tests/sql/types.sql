-- What a column of each type holds, and how a literal becomes one.
--@skip: restart: projections keep no state
CREATE STREAM one (id INT KEY) WITH (KAFKA_TOPIC='one', PARTITIONS=1, FORMAT='JSON');
INSERT INTO one VALUES (1);

--@test: whole numbers are INTEGER where they fit into 32 bits, else BIGINT
SELECT 2147483647 AS i, 2147483648 AS b, -2147483648 AS least, -9223372036854775808 AS smallest FROM one;
-- |          I |          B |       LEAST |             SMALLEST |
-- |------------|------------|-------------|----------------------|
-- | 2147483647 | 2147483648 | -2147483648 | -9223372036854775808 |
CREATE STREAM typed AS SELECT id, 2147483647 AS i, 2147483648 AS b FROM one;
DESCRIBE typed;
-- | Field | Type           |
-- |-------|----------------|
-- | ID    | INTEGER  (key) |
-- | I     | INTEGER        |
-- | B     | BIGINT         |
SELECT 9223372036854775808 FROM one EMIT CHANGES;
-- error: 9223372036854775808

--@test: numbers with a point are DECIMAL, those with an exponent DOUBLE
CREATE STREAM typed AS SELECT id, 1.50 AS d, .5 AS small, 1e3 AS e FROM one;
DESCRIBE typed;
-- | Field | Type           |
-- |-------|----------------|
-- | ID    | INTEGER  (key) |
-- | D     | DECIMAL(3, 2)  |
-- | SMALL | DECIMAL(2, 1)  |
-- | E     | DOUBLE         |
SELECT d, small, e FROM typed;
-- |    D | SMALL |      E |
-- |------|-------|--------|
-- | 1.50 |   0.5 | 1000.0 |

--@test: DECIMAL keeps its scale
CREATE STREAM money (id INT KEY, price DECIMAL(6, 2)) WITH (KAFKA_TOPIC='money', PARTITIONS=1, FORMAT='JSON');
INSERT INTO money VALUES (1, 3);
INSERT INTO money VALUES (2, 4.5);
SELECT id, price FROM money;
-- | ID | PRICE |
-- |----|-------|
-- |  1 |  3.00 |
-- |  2 |  4.50 |

--@test: BOOLEAN
SELECT true AS yes, FALSE AS no, NOT true AS never FROM one;
-- | YES  | NO    | NEVER |
-- |------|-------|-------|
-- | true | false | false |

--@test: STRING with quotes, and empty
SELECT 'it''s' AS quoted, '' AS nothing, 'a|b' AS piped FROM one;
-- | QUOTED | NOTHING | PIPED |
-- |--------|---------|-------|
-- | it's   | ""      | "a|b" |

--@test: BYTES are shown as base64
SELECT TO_BYTES('Hi', 'utf8') AS b, LEN(TO_BYTES('Hi', 'utf8')) AS n FROM one;
-- | B    | N |
-- |------|---|
-- | SGk= | 2 |

--@test: DATE, TIME and TIMESTAMP are read from ISO text
CREATE STREAM moments (id INT KEY, d DATE, t TIME, ts TIMESTAMP)
  WITH (KAFKA_TOPIC='moments', PARTITIONS=1, FORMAT='JSON');
INSERT INTO moments VALUES (1, '2024-02-29', '13:45:10', '2024-02-29T13:45:10.250');
SELECT d, t, ts FROM moments;
-- | D          | T        | TS                      |
-- |------------|----------|-------------------------|
-- | 2024-02-29 | 13:45:10 | 2024-02-29T13:45:10.250 |
PRINT moments FROM BEGINNING;
-- | record                                                                                                       |
-- |--------------------------------------------------------------------------------------------------------------|
-- | Key format: JSON or KAFKA_STRING                                                                             |
-- | Value format: JSON or KAFKA_STRING                                                                           |
-- | rowtime: 1970/01/01 00:00:00.001 Z, key: 1, value: {"D":19782,"T":49510000,"TS":1709214310250}, partition: 0 |

--@test: ARRAY counts from 1, and from the end with negative subscripts
SELECT a[1] AS first, a[-1] AS last, a[0] AS zero, a[4] AS beyond FROM arrays;
-- error: ARRAYS
CREATE STREAM arrays AS SELECT id, ARRAY[10, 20, 30] AS a FROM one;
SELECT a[1] AS first, a[-1] AS last, a[0] AS zero, a[4] AS beyond FROM arrays;
-- | FIRST | LAST | ZERO | BEYOND |
-- |-------|------|------|--------|
-- |    10 |   30 | NULL | NULL   |

--@test: MAP gives NULL for a key that it lacks
CREATE STREAM maps AS SELECT id, MAP('a' := 1, 'b' := 2) AS m FROM one;
SELECT m, m['b'] AS b, m['c'] AS c FROM maps;
-- | M                | B | C    |
-- |------------------|---|------|
-- | {"a": 1, "b": 2} | 2 | NULL |

--@test: STRUCT has named fields, in order
CREATE STREAM structs AS SELECT id, STRUCT(x := 1, y := STRUCT(z := 'deep')) AS s FROM one;
SELECT s, s->x, s->y->z AS z FROM structs;
-- | S                            | X | Z    |
-- |------------------------------|---|------|
-- | {"X": 1, "Y": {"Z": "deep"}} | 1 | deep |
SELECT s->* FROM structs;
-- | X | Y             |
-- |---|---------------|
-- | 1 | {"Z": "deep"} |
SELECT s->nothing FROM structs;
-- error: NOTHING

--@test: elements of ARRAY and MAP have one type, to which literals are converted
SELECT ARRAY[1, 2.5] AS mixed, ARRAY[1, NULL] AS gaps FROM one;
-- | MIXED      | GAPS      |
-- |------------|-----------|
-- | [1.0, 2.5] | [1, null] |
SELECT ARRAY[1, 'x'] FROM one;
-- error: x
SELECT ARRAY[NULL] FROM one;
-- error: NULL
