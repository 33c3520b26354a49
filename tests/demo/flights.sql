-- Departures from New York in 2013: cleaned, enriched, counted. Run by `make demo`.
SET 'auto.offset.reset' = 'earliest';
SET 'processing.guarantee' = 'exactly_once';
SET 'commit.interval.ms' = '1000';
SET 'cache.max.bytes.buffering' = '10000000';

CREATE STREAM flights_raw (
    carrier STRING KEY, year INT, month INT, day INT, dep_time INT, sched_dep_time INT,
    dep_delay DOUBLE, arr_time INT, sched_arr_time INT, arr_delay DOUBLE, flight INT,
    tailnum STRING, origin STRING, dest STRING, air_time DOUBLE, distance DOUBLE, hour INT,
    minute INT, time_hour TIMESTAMP
  ) WITH (KAFKA_TOPIC = 'flights', PARTITIONS = 4, VALUE_FORMAT = 'JSON', TIMESTAMP = 'TIME_HOUR');

CREATE TABLE airlines (carrier STRING PRIMARY KEY, name STRING)
  WITH (KAFKA_TOPIC = 'airlines', PARTITIONS = 4, VALUE_FORMAT = 'JSON');

CREATE TABLE planes (
    tailnum STRING PRIMARY KEY, year INT, type STRING, manufacturer STRING, model STRING,
    engines INT, seats INT, speed INT, engine STRING
  ) WITH (KAFKA_TOPIC = 'planes', PARTITIONS = 4, VALUE_FORMAT = 'JSON');

-- The tables are known before the first flight: a join sees a table as it was at its row's time.
COPY airlines FROM '${AIRLINES}' WITH (ROWTIME = '2013-01-01T00:00:00');
COPY planes FROM '${PLANES}' WITH (NULLSTR = 'NA', ROWTIME = '2013-01-01T00:00:00');
COPY flights_raw FROM '${FLIGHTS}';

-- Cleaned and enriched with the airline's name; cancelled flights have no departure time.
CREATE STREAM flights AS
  SELECT f.carrier AS carrier, a.name AS airline, f.flight AS flight, f.tailnum AS tailnum,
         f.origin AS origin, f.dest AS dest, f.dep_delay AS dep_delay, f.distance AS distance
  FROM flights_raw f LEFT JOIN airlines a ON f.carrier = a.carrier
  WHERE f.dep_time IS NOT NULL
  EMIT CHANGES;

-- The same flights by the plane that flew them, enriched with what is known of it.
CREATE STREAM flights_by_plane AS
  SELECT tailnum, airline, origin, dep_delay, distance
  FROM flights WHERE tailnum IS NOT NULL
  PARTITION BY tailnum
  EMIT CHANGES;

CREATE STREAM flights_with_plane AS
  SELECT f.tailnum AS tailnum, f.airline AS airline, f.dep_delay AS dep_delay,
         p.manufacturer AS manufacturer, p.seats AS seats
  FROM flights_by_plane f JOIN planes p ON f.tailnum = p.tailnum
  EMIT CHANGES;

-- Departures and mean delay per origin and hour: as they change, and once an hour is over.
CREATE TABLE departures AS
  SELECT origin, COUNT(*) AS departures, AVG(dep_delay) AS mean_delay
  FROM flights WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 400 DAYS, GRACE PERIOD 3 DAYS)
  GROUP BY origin
  EMIT CHANGES;

CREATE TABLE departures_final AS
  SELECT origin, COUNT(*) AS departures, AVG(dep_delay) AS mean_delay
  FROM flights WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 3 DAYS)
  GROUP BY origin
  EMIT FINAL;

CREATE TABLE carriers AS
  SELECT airline, COUNT(*) AS flights, AVG(dep_delay) AS mean_delay, MAX(dep_delay) AS worst_delay
  FROM flights GROUP BY airline
  EMIT CHANGES;

CREATE TABLE manufacturers AS
  SELECT manufacturer, COUNT(*) AS flights, AVG(dep_delay) AS mean_delay
  FROM flights_with_plane GROUP BY manufacturer
  EMIT CHANGES;
