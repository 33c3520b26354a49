"""Starting a server: from its configuration to open listeners."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import millstream
from millstream.functions.user import UserFunction
from millstream.model.errors import StatementError
from millstream.model.listener import InternalListener
from millstream.model.settings import ConnectSettings, EngineSettings, InstanceSettings
from millstream.service.database import Database
from millstream.service.functions_folder import load_functions
from millstream_server.auth.audit import Audit, Event
from millstream_server.bootstrap.addresses import EVERYWHERE
from millstream_server.bootstrap.boot import check_boot, methods, postgres_address
from millstream_server.bootstrap.config import ServerConfig
from millstream_server.bootstrap.reloading import AuditFile, Certificate, Reloading
from millstream_server.bootstrap.secret import Secret
from millstream_server.bootstrap.wiring import answer_bounds, gate, overrides, pulls_at_a_time
from millstream_server.http.addresses import AddressLimits
from millstream_server.http.admission import Admission, ConnectionLimits
from millstream_server.http.listening import Listener, Other, Tls, bind, serve
from millstream_server.http.transport import Transport
from millstream_server.postgres.connections import PostgresConnections, PostgresLimits
from millstream_server.routes import application
from millstream_server.server import Server, ServerSettings

STATE_FILE = "millstream.db"
FILES_BESIDE_SOCKETS = 1_024
_LOG = logging.getLogger("millstream.server")


def tls_of(config: ServerConfig) -> Tls | None:
    """The certificate of https listeners; None without one."""
    certificate = config.text("ssl.keystore.location")
    if not certificate:
        return None
    clients = config.text("ssl.client.authentication").upper()
    return Tls(
        certificate,
        config.text("ssl.key.location") or certificate,
        config.secret("ssl.key.password").reveal(),
        config.text("ssl.truststore.location") if clients != "NONE" else "",
        clients == "REQUIRED",
    )


def open_database(config: ServerConfig) -> Database:
    """Open the server's database: a file in its folder, or Kafka with the state in that folder."""
    path, folder = ":memory:", config.text("ksql.streams.state.dir")
    if folder:
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        path = str(Path(folder) / STATE_FILE)
    kafka = config.text("bootstrap.servers")
    return millstream.connect(
        path,
        kafka=kafka or None,
        service_id=config.text("ksql.service.id").rstrip("_") or "default",
        kafka_settings=_revealed(config.kafka) if kafka else None,
        schema_registry=_registry(config),
        kafka_connect=connect_settings(config),
        sharing=instance_settings(config) if kafka else None,
        settings=EngineSettings(
            threads=config.count("millstream.duckdb.threads"),
            function_threads=config.count("millstream.functions.threads"),
            max_batch_records=config.count("millstream.batch.max.records"),
            decoded_bytes=config.count("millstream.decoded.max.bytes"),
            linger_ms=config.count("millstream.linger.ms"),
            processing_rows=config.flag("ksql.logging.processing.rows.include"),
            processing_retention_ms=config.count("millstream.processing.log.retention.ms"),
            topic_settings=_topic_settings(config),
            checkpoints_url=config.text("millstream.checkpoints.dir"),
            checkpoint_interval_ms=config.count("millstream.checkpoints.interval.ms"),
            snapshot_commands=config.count("millstream.snapshot.statements"),
            spark_master=config.text("spark.master"),
            spark_options=config.spark,
            push_buffer_bytes=config.count("millstream.push.buffer.max.bytes"),
            memory_limit=f"{config.count('millstream.memory.max.bytes')}B",
            history_memory_limit=f"{config.count('millstream.history.memory.max.bytes')}B",
        ),
        properties=dict(config.properties),
        functions=_functions(config),
        queries_file=config.text("ksql.queries.file") or None,
    )


def _topic_settings(config: ServerConfig) -> dict[str, str]:
    parts = (item.partition("=") for item in config.texts("millstream.topic.settings"))
    return {name.strip(): value.strip() for name, _, value in parts}


def _functions(config: ServerConfig) -> tuple[UserFunction, ...]:
    enabled = config.flag("ksql.udfs.enabled")
    name = "ksql.extension.dir"
    return load_functions(config.text(name), name) if enabled else ()


def _revealed(settings: Mapping[str, str | Secret]) -> dict[str, str]:
    return {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in settings.items()
    }


def _registry(config: ServerConfig) -> dict[str, str] | None:
    """The settings of the client of the schema registry; None for none, as an empty URL says."""
    found = _revealed(config.registry)
    if not found.get("url", " "):
        return None
    if found.get("basic.auth.credentials.source") == "SASL_INHERIT":
        sasl = _revealed(config.kafka)
        user = f"{sasl.get('sasl.username', '')}:{sasl.get('sasl.password', '')}"
        found |= {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": user}
    return found or None


def connect_settings(config: ServerConfig) -> ConnectSettings | None:
    """Where Kafka Connect is; None if there is none. Raises StatementError if the file with its
    user cannot be read."""
    url, credentials = config.text("ksql.connect.url"), ""
    if not url:
        return None
    if config.text("ksql.connect.basic.auth.credentials.source").upper() == "FILE":
        path = config.text("ksql.connect.basic.auth.credentials.file")
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise StatementError(
                f"The user of Kafka Connect cannot be read from '{path}'",
                detail=str(error),
                hint="ksql.connect.basic.auth.credentials.file names a file with the lines"
                " username=… and password=…",
            ) from error
        pairs = {name.strip(): value for name, _, value in (x.partition("=") for x in lines)}
        credentials = f"{pairs.get('username', '')}:{pairs.get('password', '')}"
    return ConnectSettings(url, credentials, config.count("ksql.connect.request.timeout.ms"))


def instance_settings(config: ServerConfig) -> InstanceSettings:
    """The sharing settings of this server within its service."""
    return InstanceSettings(
        instance_id=config.text("millstream.instance.id"),
        group_protocol="consumer" if config.text("group.protocol") == "consumer" else "classic",
        session_timeout_ms=config.count("session.timeout.ms"),
        standby_replicas=config.count("num.standby.replicas"),
        acceptable_recovery_lag=config.count("acceptable.recovery.lag"),
        max_warmup_replicas=config.count("max.warmup.replicas"),
        probing_rebalance_interval_ms=config.count("probing.rebalance.interval.ms"),
        listener=_listener(config),
    )


def _listener(config: ServerConfig) -> InternalListener:
    listener = InternalListener(
        advertised=config.text("ksql.advertised.listener"),
        token=config.secret("millstream.instances.token").reveal(),
    )
    listen = config.text("ksql.internal.listener")
    if not listen:
        return listener
    tls = tls_of(config)
    return replace(
        listener,
        address=listen,
        certificate=tls.certificate if tls else "",
        key=tls.key if tls else "",
        authorities=config.text("ssl.truststore.location"),
    )


def _allow_files(count: int) -> None:
    """Raise the process's limit of open files for this many sockets, as far as the system
    permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + FILES_BESIDE_SOCKETS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        if most < wanted:
            _LOG.warning("The system permits %d open files; %d may be needed", most, wanted)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Collect garbage less often, and exclude current objects. By Python's default thresholds a
    server with thousands of queries per second collects all the time, and each full collection
    delays all of them."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        # Frozen objects would outlive the modules that their destructors need.
        gc.unfreeze()
        gc.set_threshold(*before)


def run_server(
    config: ServerConfig, *, told: Callable[[Sequence[str]], None] = lambda urls: None
) -> None:
    """Serve until SIGINT or SIGTERM; SIGHUP reads files again. `told` is called with the addresses
    after binding.

    Raises StatementError for a configuration that is refused, MillstreamError if the database, an
    address or a file is unavailable.
    """
    addresses, tls = check_boot(config), tls_of(config)
    certificate = None if tls is None else Certificate(tls)
    for warning in config.warnings:
        _LOG.warning("%s", warning)
    _allow_files(config.count("millstream.connections.max"))
    with ExitStack() as stack:
        listeners = [bind(address) for address in addresses]
        postgres = postgres_address(config)
        sessions = None if postgres is None else bind(postgres)
        for listener in (*listeners, *([sessions] if sessions else [])):
            stack.callback(listener.bound.close)
        path = config.text("millstream.audit.file")
        audit_file = AuditFile(path) if path else None
        if audit_file is not None:
            stack.callback(audit_file.close)
        log = Audit(audit_file.write if audit_file else sys.stderr.write, time.time)
        engine = stack.enter_context(open_database(config)).engine
        settings = server_settings(config, listeners[0])
        guard = gate(config, engine, log)
        server = Server(engine, settings, guard)
        reloading = Reloading(
            config, guard, log, certificate, audit_file, partial(server.ongoing.recheck, guard)
        )
        urls = [listener.url for listener in listeners]
        if sessions is not None:
            urls.append(sessions.url_of("postgresql"))
        log.event(Event.STARTED, listeners=urls)
        told(urls)
        stack.enter_context(collecting_rarely())
        asyncio.run(_serve(server, listeners, reloading, sessions))
        log.event(Event.STOPPED)


def server_settings(config: ServerConfig, listener: Listener) -> ServerSettings:
    """The server settings of a configuration."""
    host, port = listener.address
    return ServerSettings(
        config.text("ksql.service.id"),
        f"{_named(host)}:{port}",
        config.properties,
        config.text("ksql.internal.listener"),
        answer_bounds(config),
        overrides(config),
        push_queries_max=config.count("ksql.max.push.queries"),
        pull_queries_max=pulls_at_a_time(config),
        statements_max=config.count("millstream.statements.max"),
        body_bytes_max=config.count("millstream.body.max.bytes"),
        answers_bytes_max=config.count("millstream.answers.max.bytes"),
        headers_max=config.count("millstream.headers.max.count"),
        body_seconds=config.seconds("millstream.body.deadline.seconds"),
        websocket_seconds=config.count("ksql.websocket.connection.max.timeout.ms") / 1000,
    )


def _named(host: str) -> str:
    """The advertised address of the server; for a listener on all addresses, the machine's name."""
    return socket.gethostname() if host in EVERYWHERE else host


def transport_of(config: ServerConfig) -> Transport:
    """The bounds on the connections of a server."""
    total = config.count("millstream.connections.max")
    per_address = config.count("millstream.connections.address.max")
    # Without authentication, no client could ever use reserved connections.
    reserved = config.count("millstream.connections.reserved") if methods(config) else 0
    of_address = AddressLimits(
        config.count("millstream.connections.address.rate"),
        per_address,
        config.count("millstream.frames.address.factor"),
    )
    return Transport(
        ConnectionLimits(total, per_address, min(reserved, total // 2), of_address),
        config.count("millstream.headers.max.bytes"),
        config.seconds("millstream.headers.deadline.seconds"),
        config.seconds("ksql.idle.connection.timeout.seconds"),
        config.seconds("millstream.answer.stall.seconds"),
        config.count("millstream.streams.max"),
    )


async def _serve(
    server: Server,
    listeners: Sequence[Listener],
    reloading: Reloading,
    sessions: Listener | None,
) -> None:
    config, certificate = reloading.config, reloading.certificate
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)

    reloads = asyncio.Lock()
    begun: set[asyncio.Task[None]] = set()

    async def reload() -> None:
        async with reloads:
            await asyncio.to_thread(reloading.reload)

    def hung_up() -> None:
        task = loop.create_task(reload())
        begun.add(task)
        task.add_done_callback(begun.discard)

    loop.add_signal_handler(signal.SIGHUP, hung_up)

    async def stopped() -> None:
        await stop.wait()
        server.close()

    app = application(server, config.texts("access.control.allow.origin"))
    tls = None if certificate is None else certificate.context
    transport = transport_of(config)
    admission = Admission(transport.limits)
    others = [] if sessions is None else [_postgres(server, sessions, admission, config, tls)]
    await serve(app, listeners, stopped, tls, transport, others, admission)


def _postgres(
    server: Server,
    listener: Listener,
    admission: Admission,
    config: ServerConfig,
    tls: Callable[[], ssl.SSLContext] | None,
) -> Other:
    address = postgres_address(config)
    limits = PostgresLimits(
        config.seconds("millstream.headers.deadline.seconds"),
        config.seconds("millstream.answer.stall.seconds"),
        only_tls=address is not None and not (address.loopback or config.insecure),
    )
    connections = PostgresConnections(server, admission, limits, tls)
    return Other(listener, connections.opened, connections.end)
