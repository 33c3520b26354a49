-- Functions of dates, times and timestamps.
--@skip: restart, simulated: functions of one row, which no state and no log can change
CREATE STREAM one (id INT KEY) WITH (KAFKA_TOPIC='one', PARTITIONS=1, FORMAT='JSON');
INSERT INTO one VALUES (1);

--@test: functions of dates and times
-- DATEADD and DATESUB take whole days
SELECT DATEADD(DAYS, 1, '2024-02-28') AS a, DATESUB(DAYS, 60, '2024-03-01') AS b, DATEADD(HOURS, 25, '2024-02-28') AS c FROM one;
-- | A          | B          | C          |
-- |------------|------------|------------|
-- | 2024-02-29 | 2024-01-01 | 2024-02-29 |

-- TIMEADD and TIMESUB go round the clock
SELECT TIMEADD(HOURS, 3, '22:30:00') AS a, TIMESUB(MINUTES, 31, '00:30:00') AS b FROM one;
-- | A        | B        |
-- |----------|----------|
-- | 01:30:00 | 23:59:00 |

-- TIMESTAMPADD and TIMESTAMPSUB
SELECT TIMESTAMPADD(MINUTES, 90, '2024-01-01T23:00:00') AS a, TIMESTAMPSUB(MILLISECONDS, 1, '2024-01-01T00:00:00') AS b FROM one;
-- | A                       | B                       |
-- |-------------------------|-------------------------|
-- | 2024-01-02T00:30:00.000 | 2023-12-31T23:59:59.999 |

-- FORMAT functions have Java's patterns
SELECT FORMAT_DATE('2024-03-05', 'd.M.yy') AS a, FORMAT_TIME('13:05:00', 'h:mm a') AS b, FORMAT_TIMESTAMP(FROM_UNIXTIME(0), 'yyyy-MM-dd HH:mm', 'Asia/Tokyo') AS c FROM one;
-- |      A | B       | C                |
-- |--------|---------|------------------|
-- | 5.3.24 | 1:05 PM | 1970-01-01 09:00 |

-- PARSE functions, with a zone
SELECT PARSE_DATE('31/12/2021', 'dd/MM/yyyy') AS a, PARSE_TIME('07:08', 'HH:mm') AS b, PARSE_TIMESTAMP('2024-01-02 03:04', 'yyyy-MM-dd HH:mm') AS c, PARSE_TIMESTAMP('2024-01-02 03:04', 'yyyy-MM-dd HH:mm', 'Asia/Tokyo') AS d FROM one;
-- | A          | B        | C                       | D                       |
-- |------------|----------|-------------------------|-------------------------|
-- | 2021-12-31 | 07:08:00 | 2024-01-02T03:04:00.000 | 2024-01-01T18:04:00.000 |

-- days and milliseconds since 1970
SELECT UNIX_DATE(FROM_DAYS(19000)) AS a, FROM_DAYS(0) AS b, UNIX_TIMESTAMP(FROM_UNIXTIME(86400000)) AS c, FROM_UNIXTIME(86400001) AS d FROM one;
-- |     A | B          |        C | D                       |
-- |-------|------------|----------|-------------------------|
-- | 19000 | 1970-01-01 | 86400000 | 1970-01-02T00:00:00.001 |

-- CONVERT_TZ shifts the wall clock
SELECT CONVERT_TZ('2024-01-01T00:00:00', 'UTC', 'Asia/Tokyo') AS a, CONVERT_TZ('2024-07-01T12:00:00', 'Europe/Paris', 'UTC') AS b FROM one;
-- | A                       | B                       |
-- |-------------------------|-------------------------|
-- | 2024-01-01T09:00:00.000 | 2024-07-01T10:00:00.000 |

-- dates compare with texts, and with timestamps
SELECT CAST('2024-03-01' AS DATE) > '2024-02-01' AS a, CAST('2024-03-01' AS DATE) = CAST('2024-03-01T00:00:00' AS TIMESTAMP) AS b FROM one;
-- | A    | B    |
-- |------|------|
-- | true | true |
