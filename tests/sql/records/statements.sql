-- Records of several formats, windows and deletions, as ksql-test-runner has them.
CREATE STREAM clicks (page INT KEY, ms BIGINT) WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='DELIMITED');
CREATE TABLE hits WITH (KAFKA_TOPIC='hits', VALUE_FORMAT='JSON') AS
  SELECT page, COUNT(*) AS n, MAX(ms) AS slowest FROM clicks WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY page;
CREATE TABLE sessions WITH (KAFKA_TOPIC='sessions', VALUE_FORMAT='JSON') AS
  SELECT page, COUNT(*) AS n FROM clicks WINDOW SESSION (1 SECOND) GROUP BY page;
CREATE TABLE t (id STRING PRIMARY KEY, v DOUBLE) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
CREATE TABLE large WITH (KAFKA_TOPIC='large') AS SELECT * FROM t WHERE v > 1;
