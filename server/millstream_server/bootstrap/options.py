"""Every setting of the server, as a table: name, kind, default, meaning."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ValueKind(Enum):
    """How the text of a setting is parsed."""

    TEXT = "text"
    LIST = "texts with commas between"
    COUNT = "a whole number of at least 1"
    NUMBER = "a whole number of at least 0"
    FLAG = "true or false"
    SIZE = "a number of bytes, or of KiB, MiB or GiB (64MiB)"
    SECONDS = "a number of seconds above 0"
    SECRET = "text, or a reference such as ${env:NAME}"


@dataclass(frozen=True, slots=True)
class Option:
    """One setting. `most` is the largest value of a number: every limit is finite."""

    name: str
    kind: ValueKind
    default: str
    meaning: str
    most: float = 0


_T, _L, _C = ValueKind.TEXT, ValueKind.LIST, ValueKind.COUNT
_N, _F = ValueKind.NUMBER, ValueKind.FLAG
_B, _S, _X = ValueKind.SIZE, ValueKind.SECONDS, ValueKind.SECRET

OPTIONS: tuple[Option, ...] = (
    Option("listeners", _L, "http://127.0.0.1:8088", "URLs to listen on."),
    Option("millstream.postgres.listener", _T, "", "host:port for PostgreSQL's protocol, if any."),
    Option("ksql.service.id", _T, "default_", "The service: instances that share a command topic."),
    Option("ksql.streams.state.dir", _T, "", "Folder of the database's file; empty: memory."),
    Option("bootstrap.servers", _T, "", "Brokers; empty: the records lie in the database's file."),
    Option("ksql.queries.file", _T, "", "A script that is all the server runs."),
    Option("ksql.extension.dir", _T, "", "Folder of Python modules with functions; empty: none."),
    Option("ksql.udfs.enabled", _F, "true", "Whether these functions are loaded."),
    Option("ksql.connect.url", _T, "", "Kafka Connect, for connectors; empty: none."),
    Option("ksql.connect.request.timeout.ms", _C, "5000", "Of a request to it.", 600_000),
    Option("ksql.connect.basic.auth.credentials.source", _T, "NONE", "NONE or FILE."),
    Option("ksql.connect.basic.auth.credentials.file", _T, "", "Lines username=… and password=…."),
    # --- how queries run
    Option("millstream.duckdb.threads", _C, "1", "DuckDB's threads for batch work.", 1_024),
    Option("millstream.functions.threads", _C, "2", "Threads for functions in Python.", 1_024),
    Option("millstream.batch.max.records", _C, "200000", "Records of a query's run.", 100e6),
    Option(
        "millstream.decoded.max.bytes",
        _B,
        "64MiB",
        "Decoded records kept for other queries.",
        4 << 30,
    ),
    Option("millstream.linger.ms", _N, "5000", "Wait for company of a few unread rows.", 600_000),
    Option("millstream.push.buffer.max.bytes", _B, "1MiB", "Unread rows of a push query.", 4 << 30),
    Option("millstream.snapshot.statements", _C, "50", "Statements between snapshots.", 1e6),
    Option("millstream.topic.settings", _L, "", "Of new topics: retention.ms=604800000, …"),
    Option("millstream.checkpoints.dir", _T, "", "Folder or URL for checkpoints of state."),
    Option("millstream.checkpoints.interval.ms", _C, "60000", "How often they are written.", 864e5),
    Option(
        "ksql.logging.processing.rows.include",
        _F,
        "false",
        "Whether entries of the processing log hold the rows that they are about.",
    ),
    Option(
        "millstream.processing.log.retention.ms",
        _C,
        "604800000",
        "How long entries of the processing log are kept.",
        4e12,
    ),
    Option("spark.master", _T, "local[*]", "Where history runs on Spark; spark.…: its options."),
    # --- other instances of the service, on Kafka
    Option("ksql.internal.listener", _T, "", "host:port where other instances ask; TLS as below."),
    Option("ksql.advertised.listener", _T, "", "host:port where they find it, if another one."),
    Option("millstream.instances.token", _X, "", "By which instances know each other."),
    Option("num.standby.replicas", _N, "0", "Other instances that keep a copy of state.", 100),
    Option("acceptable.recovery.lag", _N, "100", "Records a copy lacks that counts.", 1 << 53),
    Option("max.warmup.replicas", _N, "2", "Copies made at a time for tasks to move.", 1000),
    Option("probing.rebalance.interval.ms", _C, "2000", "How often they are looked at.", 864e5),
    Option("session.timeout.ms", _C, "10000", "Until others take over what is silent.", 1_800_000),
    Option("group.protocol", _T, "classic", "classic, or consumer (KIP-848)."),
    Option("millstream.instance.id", _T, "", "A name that the instance keeps over restarts."),
    # --- what clients may set
    Option("ksql.properties.overrides.validation.mode", _T, "denylist", "denylist or allowlist."),
    Option("ksql.properties.overrides.denylist", _L, "", "Properties that clients may not set."),
    Option("ksql.properties.overrides.allowlist", _L, "", "The only ones that they may set."),
    # --- authentication and authorisation
    Option("authentication.method", _L, "NONE", "NONE, or any of BASIC, BEARER, MTLS."),
    Option("authentication.realm", _T, "millstream", "What a browser's prompt shows."),
    Option("authentication.roles", _L, "**", "Roles that may come in; ** for any principal."),
    Option("authentication.skip.paths", _L, "", "Paths (globs) that need no authentication."),
    Option("authentication.users.file", _T, "", "Users, password hashes and roles; mode 0600."),
    Option("authentication.subjects.file", _T, "", "Subjects of client certificates and roles."),
    Option("authentication.jwt.keys", _T, "", "A JWKS file, or its https URL."),
    Option("authentication.jwt.issuer", _T, "", "The `iss` of acceptable tokens."),
    Option("authentication.jwt.audience", _T, "", "The `aud` of acceptable tokens."),
    Option("authentication.jwt.algorithms", _L, "", "Pins keys that name none: kid=ALG, …."),
    Option("authentication.jwt.roles.claim", _T, "roles", "The claim that lists the roles."),
    Option(
        "authorization.rules.file", _T, "", "Who may do what; empty: admins all, others nothing."
    ),
    Option("authorization.admin.roles", _L, "admin", "Roles that may do everything."),
    # --- transport
    Option("ssl.keystore.location", _T, "", "PEM file: the server's key and certificates."),
    Option("ssl.keystore.type", _T, "PEM", "PEM."),
    Option("ssl.key.location", _T, "", "PEM file: the key, where the keystore has none."),
    Option("ssl.key.password", _X, "", "Of the key in the keystore."),
    Option("ssl.truststore.location", _T, "", "PEM file: who signed the clients' certificates."),
    Option("ssl.client.authentication", _T, "NONE", "NONE, REQUESTED or REQUIRED."),
    Option(
        "access.control.allow.origin", _L, "", "Origins of pages that may call; none: CORS off."
    ),
    Option(
        "millstream.hosts", _L, "", "Names in Host, beside its listeners' and loopback; * for any."
    ),
    Option("millstream.audit.file", _T, "", "File of the audit log; empty: standard error."),
    # --- limits
    Option("ksql.max.push.queries", _C, "100", "Push queries at a time.", 100_000),
    Option("ksql.query.pull.max.concurrent.requests", _C, "64", "Pull queries at a time.", 10_000),
    Option("ksql.query.pull.max.qps", _C, "10000", "Pull queries per second, each principal.", 1e6),
    Option("ksql.query.pull.coordinator.queue.capacity", _C, "256", "Those that wait.", 100_000),
    Option("millstream.request.max.rate", _C, "10000", "Requests a second, each principal.", 1e6),
    Option("millstream.principal.max.concurrent", _C, "256", "Requests at a time, each.", 10_000),
    Option("millstream.statement.max.rate", _C, "50", "DDL a second, each principal.", 1e6),
    Option("millstream.connections.max", _C, "1000", "Connections at a time.", 100_000),
    Option("millstream.connections.address.max", _C, "500", "Of them from one address.", 100_000),
    Option("millstream.connections.address.rate", _C, "200", "New ones a second from it.", 1e6),
    Option(
        "millstream.frames.address.factor",
        _C,
        "6",
        "Resets and pings from it, in those of one.",
        10_000,
    ),
    Option(
        "millstream.connections.reserved", _C, "100", "Of them for clients authenticated.", 50_000
    ),
    Option("millstream.result.max.rows", _C, "1000000", "Rows of an answer.", 1e9),
    Option("millstream.result.max.bytes", _B, "64MiB", "Bytes of an answer.", 16 << 30),
    Option("millstream.answers.max.bytes", _B, "256MiB", "Unread bytes of all answers.", 1 << 44),
    Option("millstream.request.deadline.seconds", _S, "30", "What a request may take.", 3600),
    Option("millstream.body.max.bytes", _B, "1MiB", "Bytes of a request.", 64 << 20),
    Option("millstream.headers.deadline.seconds", _S, "10", "Until the headers have come.", 3600),
    Option("millstream.body.deadline.seconds", _S, "10", "Until the rest has come.", 3600),
    Option("millstream.answer.stall.seconds", _S, "60", "Until a stalled reader ends.", 3600),
    Option("millstream.streams.max", _C, "100", "Requests at a time on a connection.", 10_000),
    Option("millstream.headers.max.bytes", _B, "16KiB", "Bytes of its headers.", 1 << 20),
    Option("millstream.headers.max.count", _C, "100", "Headers of a request.", 10_000),
    Option("ksql.idle.connection.timeout.seconds", _S, "60", "Until a connection ends.", 86_400),
    Option("ksql.websocket.connection.max.timeout.ms", _C, "3600000", "A websocket's life.", 864e5),
    Option("millstream.statements.max", _C, "500", "Statements of a request.", 10_000),
    Option("millstream.memory.max.bytes", _B, "1GiB", "What DuckDB may use.", 1 << 44),
    Option(
        "millstream.history.memory.max.bytes", _B, "1GiB", "And for each history query.", 1 << 44
    ),
)
BY_NAME = {option.name: option for option in OPTIONS}
ON_KAFKA_ONLY = (
    "num.standby.replicas",
    "acceptable.recovery.lag",
    "max.warmup.replicas",
    "probing.rebalance.interval.ms",
    "session.timeout.ms",
    "group.protocol",
    "millstream.instance.id",
    "millstream.instances.token",
    "ksql.advertised.listener",
)
"""Settings of instances that share a service."""
WITHOUT_EFFECT = frozenset(
    (
        "enable.fips",
        "ksql.client.ip_port.configuration.enabled",
        "ksql.deployment.type",
        "ksql.endpoint.migrate.query",
        "ksql.internal.http2.max.pool.size",
        "ksql.json_sr.converter.deserializer.enabled",
        "ksql.logging.processing.stream.auto.create",
        "ksql.logging.processing.stream.name",
        "ksql.logging.processing.topic.auto.create",
        "ksql.logging.processing.topic.name",
        "ksql.logging.processing.topic.partitions",
        "ksql.logging.processing.topic.replication.factor",
        "ksql.proxy.protocol.local.mode.enabled",
        "ksql.query.push.v2.catchup.consumer.msg.window",
        "ksql.query.push.v2.interpreter.enabled",
        "ksql.query.push.v2.latest.reset.age.ms",
        "ksql.query.push.v2.metrics.enabled",
        "ksql.query.push.v2.new.latest.delay.ms",
        "ksql.server.command.topic.migration.enabled",
        "ksql.server.install.dir",
        "ksql.server.websockets.num.threads",
        "ksql.verticle.instances",
        "poll.ms",
        "query.stream.disconnect.check",
        "rack.aware.assignment.non_overlap_cost",
        "rack.aware.assignment.strategy",
        "rack.aware.assignment.tags",
        "rack.aware.assignment.traffic_cost",
        "window.size.ms",
    )
)
"""Settings of ksqlDB without effect here; they are accepted with a warning."""
