-- Functions of texts, and regular expressions.
--@skip: restart, simulated: functions of one row, which no state and no log can change
CREATE STREAM one (id INT KEY, missing STRING) WITH (KAFKA_TOPIC='one', PARTITIONS=1, VALUE_FORMAT='JSON');
INSERT INTO one (id) VALUES (1);

--@test: functions of texts
-- SUBSTRING counts from 1, and from the end with a negative position
SELECT SUBSTRING('network', 0, 3) AS a, SUBSTRING('network', 4) AS b, SUBSTRING('network', -4) AS c, SUBSTRING('network', -4, 2) AS d, SUBSTRING('network', 9) AS e FROM one;
-- | A   | B    | C    | D  | E  |
-- |-----|------|------|----|----|
-- | net | work | work | wo | "" |

-- INSTR finds the n-th occurrence, and searches backwards
SELECT INSTR('banana', 'an') AS a, INSTR('banana', 'an', 1, 2) AS b, INSTR('banana', 'an', -1) AS c, INSTR('banana', 'x') AS d, INSTR(missing, 'x') AS e FROM one;
-- | A | B | C | D | E |
-- |---|---|---|---|---|
-- | 2 | 4 | 4 | 0 | 0 |

-- LPAD and RPAD pad and cut
SELECT LPAD('7', 3, '0') AS a, RPAD('abc', 2, '-') AS b, LPAD('a', 3, '') AS c FROM one;
-- | A     | B  | C    |
-- |-------|----|------|
-- | "007" | ab | NULL |

-- MASK and its kin
SELECT MASK('Ab-9') AS a, MASK('Ab-9', '*', NULL, '#', NULL) AS b, MASK_LEFT('Ab-9', 2) AS c, MASK_RIGHT('Ab-9', 1) AS d, MASK_KEEP_LEFT('Ab-9', 1) AS e, MASK_KEEP_RIGHT('Card 4411', 4) AS f FROM one;
-- | A    | B    | C    | D    | E    | F         |
-- |------|------|------|------|------|-----------|
-- | Xx-n | *b-# | Xx-9 | Ab-n | Ax-n | Xxxx-4411 |

-- SPLIT and SPLIT_TO_MAP
SELECT SPLIT(',a,,b', ',') AS a, SPLIT('ab', '') AS b, SPLIT_TO_MAP('a=1;b=2;a=3', ';', '=') AS c FROM one;
-- | A                  | B          | C                    |
-- |--------------------|------------|----------------------|
-- | ["", "a", "", "b"] | ["a", "b"] | {"a": "3", "b": "2"} |

-- CONCAT and CONCAT_WS leave NULL out
SELECT CONCAT('a', NULL) AS a, CONCAT_WS('-', 'a', NULL, 'c') AS b, CONCAT_WS(missing, 'a', 'b') AS c FROM one;
-- | A | B   | C    |
-- |---|-----|------|
-- | a | a-c | NULL |

-- cases and blanks
SELECT UCASE('aß') AS a, LCASE('AB') AS b, INITCAP('the quick fox') AS c, TRIM('  a b ') AS d, LEN('network') AS e, REPLACE('a.b.c', '.', '-') AS f FROM one;
-- | A   | B  | C             | D   | E | F     |
-- |-----|----|---------------|-----|---|-------|
-- | ASS | ab | The Quick Fox | a b | 7 | a-b-c |

-- REGEXP functions have Java's expressions
SELECT REGEXP_EXTRACT('(\w)(\d+)', 'k42', 2) AS a, REGEXP_EXTRACT('z', 'k42') AS b, REGEXP_EXTRACT_ALL('\d', 'a1b2') AS c, REGEXP_REPLACE('k42', '(\w)(\d+)', '$2$1') AS d, REGEXP_SPLIT_TO_ARRAY('1a2b3', '[a-z]') AS e FROM one;
-- |  A | B    | C          | D   | E               |
-- |----|------|------------|-----|-----------------|
-- | 42 | NULL | ["1", "2"] | 42k | ["1", "2", "3"] |

-- ENCODE, MD5 and CHR
SELECT ENCODE('4869', 'hex', 'utf8') AS a, ENCODE('Hi', 'utf8', 'base64') AS b, MD5('a') AS c, CHR(65) AS d FROM one;
-- | A  | B    | C                                | D |
-- |----|------|----------------------------------|---|
-- | Hi | SGk= | 0cc175b9c0f1b6a831c399e269772661 | A |

-- ELT and FIELD are each other's inverse
SELECT ELT(2, 'p', 'q') AS a, ELT(3, 'p', 'q') AS b, FIELD('q', 'p', 'q') AS c, FIELD('z', 'p', 'q') AS d, FIELD(missing, 'p') AS e FROM one;
-- | A | B    | C | D | E |
-- |---|------|---|---|---|
-- | q | NULL | 2 | 0 | 0 |

-- LIKE with % and _ and an ESCAPE
SELECT 'a%b' LIKE 'a\%b' ESCAPE '\' AS escaped, 'axb' LIKE 'a\%b' ESCAPE '\' AS other, 'abc' LIKE 'a_c' AS one_char, 'ABC' LIKE 'a%' AS cased FROM one;
-- | ESCAPED | OTHER | ONE_CHAR | CASED |
-- |---------|-------|----------|-------|
-- | true    | false | true     | false |

-- functions of URLs
SELECT URL_EXTRACT_PARAMETER('http://h/p?x=%2B1&y', 'x') AS a, URL_EXTRACT_HOST('http://h:81/p') AS b, URL_EXTRACT_PORT('http://h:81/p') AS c, URL_EXTRACT_PATH('http://h/p/q?x') AS d, URL_EXTRACT_PROTOCOL('http://h/') AS e, URL_EXTRACT_FRAGMENT('http://h/#top') AS f, URL_ENCODE_PARAM('a b') AS g FROM one;
-- | A  | B |  C | D    | E    | F   | G   |
-- |----|---|----|------|------|-----|-----|
-- | +1 | h | 81 | /p/q | http | top | a+b |
