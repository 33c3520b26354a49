"""The properties of a session: their names, kinds, defaults and descriptions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Property:
    """One settable property. `kind` is string, int, bool, "ms|never" or a choice "a|b|c"."""

    name: str
    kind: str
    default: str
    description: str


PROPERTIES: tuple[Property, ...] = (
    Property(
        "auto.offset.reset",
        "earliest|latest",
        "latest",
        "Where a new query starts on a stream it reads for the first time.",
    ),
    Property(
        "processing.guarantee",
        "at_least_once|exactly_once|exactly_once_v2",
        "at_least_once",
        "What survives a crash: nothing lost, or nothing lost or doubled.",
    ),
    Property("commit.interval.ms", "int", "200", "How often results and positions are committed."),
    Property(
        "cache.max.bytes.buffering",
        "int",
        "0",
        "0: every change of a table is written; more: one change per key and commit, none of a row "
        "that came and went between two.",
    ),
    Property(
        "max.task.idle.ms",
        "int",
        "0",
        "How long a task with records of one input waits for those of another, so that it takes "
        "them in the order of time; 0 or less: not at all.",
    ),
    Property(
        "idle.window.close.ms",
        "ms|never",
        "never",
        "How long all inputs of a query must have been idle, by the clock of the wall, for its "
        "windows to close without a record: EMIT FINAL and outer joins with a grace period then "
        "release what they hold back, and what comes later for it is late.",
    ),
    Property(
        "processing.exception.handler",
        "fail|continue",
        "fail",
        "What a query does when a processor raises an exception: it stops at the record; or it "
        "skips the record, undoes what was done for it, and reports it to the processing log.",
    ),
    Property(
        "millstream.lost.records",
        "fail|continue",
        "fail",
        "What a persistent query does when records were deleted before it has read them: it stops "
        "(E-GAP); or it goes on with the earliest ones that are left, and reports to the "
        "processing log how many were lost.",
    ),
    Property(
        "errors.dead.letter.queue.topic.name",
        "string",
        "",
        "The topic that gets the records which a query skips because they cannot be decoded, have "
        "no usable timestamp, or a processor raises an exception for them. It is created if it is "
        "missing.",
    ),
    Property(
        "ksql.persistence.default.format.key",
        "string",
        "KAFKA",
        "KEY_FORMAT where a statement names none.",
    ),
    Property(
        "ksql.persistence.default.format.value",
        "string",
        "",
        "VALUE_FORMAT where a statement names none.",
    ),
    Property(
        "ksql.persistence.wrap.single.values",
        "bool",
        "",
        "WRAP_SINGLE_VALUE where a statement names none.",
    ),
    Property(
        "ksql.output.topic.name.prefix",
        "string",
        "",
        "Put before the name of a sink topic that is not named by KAFKA_TOPIC.",
    ),
    Property("ksql.sink.partitions", "int", "", "Partitions of new sink topics."),
    Property("ksql.sink.replicas", "int", "", "Replicas of new sink topics."),
    Property(
        "millstream.emit.final.forgetful",
        "bool",
        "false",
        "Whether EMIT FINAL loses windows that lie further behind the newest than size and grace "
        "when they close, as an engine does whose window store has expired them.",
    ),
    Property(
        "millstream.input.order",
        "time|arrival",
        "time",
        "In which order a query takes the records of several inputs: `time`, of what has come "
        "those with the lowest event time first; `arrival`, as they came to the log, so that "
        "results do not depend on when they are read. A log on Kafka has no order of arrival.",
    ),
    Property(
        "ksql.functions.collect_list.limit",
        "int",
        "-1",
        "Most elements COLLECT_LIST keeps; -1 for no limit.",
    ),
    Property(
        "ksql.functions.collect_set.limit",
        "int",
        "-1",
        "Most elements COLLECT_SET keeps; -1 for no limit.",
    ),
    Property(
        "ksql.functions.substring.legacy.args",
        "bool",
        "false",
        "Accepted for compatibility; only false is supported.",
    ),
    Property(
        "ksql.timestamp.throw.on.invalid",
        "bool",
        "false",
        "Stop the query at a record without a usable timestamp, instead of skipping it.",
    ),
    Property(
        "ksql.fail.on.deserialization.error",
        "bool",
        "false",
        "Stop the query at an undecodable record, instead of skipping it.",
    ),
    Property(
        "ksql.new.query.planner.enabled",
        "bool",
        "false",
        "Let a key be left out of the projection; keys follow projection order.",
    ),
    Property(
        "ksql.query.priority",
        "int",
        "0",
        "Among queries that have as much to do, those of a higher priority are worked on sooner.",
    ),
    Property(
        "num.stream.threads",
        "int",
        "2",
        "How many threads process queries; given to `connect`, as it counts for the whole engine. "
        "Also called `processing.threads`.",
    ),
    Property("ksql.variable.substitution.enable", "bool", "true", "Replace ${name} in statements."),
    Property(
        "ksql.lambdas.enabled",
        "bool",
        "true",
        "Allow lambda expressions in new queries that keep running.",
    ),
    Property(
        "ksql.suppress.enabled",
        "bool",
        "true",
        "Allow EMIT FINAL.",
    ),
    Property(
        "ksql.create.or.replace.enabled",
        "bool",
        "true",
        "Allow CREATE OR REPLACE.",
    ),
    Property("ksql.insert.into.values.enabled", "bool", "true", "Allow INSERT INTO … VALUES."),
    Property(
        "ksql.headers.columns.enabled",
        "bool",
        "true",
        "Allow header columns in new streams and tables.",
    ),
    Property("ksql.pull.queries.enable", "bool", "true", "Allow pull queries."),
    Property(
        "ksql.query.pull.table.scan.enabled",
        "bool",
        "true",
        "Allow pull queries that look at all rows of a table, not at those of given keys.",
    ),
    Property(
        "ksql.query.pull.range.scan.enabled",
        "bool",
        "true",
        "Allow pull queries on a range of keys where those on all rows are not.",
    ),
    Property(
        "millstream.query.pull.extended.enabled",
        "bool",
        "true",
        "Allow pull queries beyond ksqlDB's: ORDER BY, joins, GROUP BY, subqueries.",
    ),
    Property(
        "ksql.query.push.v2.enabled",
        "bool",
        "false",
        "Let push queries from the latest record on share what persistent queries make.",
    ),
    Property("ksql.query.pull.stream.enabled", "bool", "true", "Allow pull queries on streams."),
    Property(
        "ksql.query.pull.enable.standby.reads",
        "bool",
        "false",
        "Whether a pull query may read a copy that lags where the owner of a partition is away.",
    ),
    Property(
        "ksql.query.pull.max.allowed.offset.lag",
        "int",
        str(2**63 - 1),
        "Most records of the changelog by which such a copy may lag.",
    ),
    Property(
        "ksql.query.pull.forwarding.timeout.ms",
        "int",
        "20000",
        "How long a pull query waits for the rows of another instance.",
    ),
    Property(
        "millstream.query.pull.ready.timeout.ms",
        "int",
        "5000",
        "How long a pull query waits for partitions that are moving or being restored.",
    ),
    Property(
        "millstream.query.pull.snapshot",
        "bool",
        "true",
        "Read several tables as of one moment; without that, each partition as of its last commit.",
    ),
    Property(
        "millstream.query.pull.timeout.ms",
        "int",
        "60000",
        "How long a pull query beyond the dialect (joins, GROUP BY, …) may take.",
    ),
    Property(
        "millstream.history.backend",
        "auto|duckdb|spark",
        "auto",
        "Where queries over history run: in this process, on Spark, or there when they are large.",
    ),
    Property(
        "millstream.history.spark.bytes",
        "int",
        "4294967296",
        "From how many bytes of records on a query over history runs on Spark, where that is left "
        "to the engine and Spark is installed.",
    ),
    Property(
        "ksql.query.pull.limit.clause.enabled",
        "bool",
        "true",
        "Allow LIMIT in pull queries.",
    ),
    Property(
        "ksql.assert.topic.default.timeout.ms",
        "int",
        "1000",
        "How long ASSERT TOPIC without TIMEOUT waits until it holds.",
    ),
    Property(
        "ksql.assert.schema.default.timeout.ms",
        "int",
        "1000",
        "How long ASSERT SCHEMA without TIMEOUT waits until it holds.",
    ),
    Property(
        "ksql.streams.default.timestamp.extractor",
        "string",
        "",
        "Accepted for compatibility; has no effect.",
    ),
    Property(
        "topology.optimization", "string", "all", "Accepted for compatibility; has no effect."
    ),
    Property(
        "buffered.records.per.partition",
        "int",
        "1000",
        "Accepted for compatibility; what is read at once is bounded by `max_batch_records`.",
    ),
    Property("task.timeout.ms", "int", "300000", "Accepted for compatibility; has no effect."),
    Property(
        "ksql.query.retry.backoff.max.ms",
        "int",
        "900000",
        "Accepted for compatibility; has no effect.",
    ),
    Property(
        "ksql.query.pull.interpreter.enabled",
        "bool",
        "true",
        "Accepted for compatibility; has no effect.",
    ),
    Property(
        "ksql.windowed.session.key.legacy",
        "bool",
        "false",
        "Accepted for compatibility; has no effect.",
    ),
    Property(
        "__emit.interval.ms.kstreams.windowed.aggregation__",
        "int",
        "0",
        "Accepted for compatibility; EMIT FINAL is never throttled.",
    ),
)
