"""Builds the server's guard from its configuration."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.function import Catalogue
from millstream.model.errors import StatementError
from millstream.model.overrides import Overrides, canonical_names
from millstream.model.settings import EngineSettings
from millstream.query.session import Bounds
from millstream.service.engine import Engine
from millstream_server.auth.access import Access, read_rules
from millstream_server.auth.audit import Audit
from millstream_server.auth.auth import Authenticator, Rules
from millstream_server.auth.certificates import read_subjects
from millstream_server.auth.gate import Gate, Policy
from millstream_server.auth.jwks import ALGORITHMS, open_keys
from millstream_server.auth.limits import Limits, Quota, Work, WorkLimit
from millstream_server.auth.origins import Origins
from millstream_server.auth.passwords import read_users
from millstream_server.auth.tokens import Tokens
from millstream_server.bootstrap.addresses import EVERYWHERE, read_address
from millstream_server.bootstrap.boot import methods
from millstream_server.bootstrap.config import ServerConfig
from millstream_server.bootstrap.secret import read_private, read_settings


def authenticator(
    config: ServerConfig,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    now: Callable[[], float] = time.time,
) -> Authenticator:
    """The authenticator, with the files read. Raises StatementError for a file that is invalid or
    accessible to others, UnavailableError if signing keys cannot be read."""
    chosen = methods(config)
    users = tokens = subjects = None
    if "BASIC" in chosen:
        users = read_users(read_private(config.text("authentication.users.file")))
    if "BEARER" in chosen:
        keys = open_keys(config.text("authentication.jwt.keys"), _pins(config), monotonic)
        tokens = Tokens(
            keys,
            config.text("authentication.jwt.issuer"),
            config.text("authentication.jwt.audience"),
            now,
            config.text("authentication.jwt.roles.claim"),
        )
    if "MTLS" in chosen:
        subjects = read_subjects(read_settings(config.text("authentication.subjects.file")))
    rules = Rules(
        config.texts("authentication.roles"),
        config.texts("authentication.skip.paths"),
        config.text("authentication.realm"),
    )
    return Authenticator(rules, monotonic, users=users, tokens=tokens, subjects=subjects)


def access(config: ServerConfig, settings: EngineSettings) -> Access:
    """The rules in force; `settings` determine the internal topics.

    Without authentication everyone may do everything; with it, the rules' file decides, and without
    that file only administrators are allowed.
    """
    path = config.text("authorization.rules.file")
    rules = read_rules(read_settings(path)) if path else ()
    admins = frozenset(config.texts("authorization.admin.roles"))
    return Access(rules, admins, settings.is_internal, open=not methods(config))


def policy(
    config: ServerConfig,
    engine: Engine,
    *,
    before: Policy | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Policy:
    """The policy for authentication and authorisation. Delays of failed attempts continue from the
    policy `before`. Raises StatementError, UnavailableError as `authenticator` does."""
    made = authenticator(config, monotonic=monotonic)
    if before is not None:
        made.go_on(before.authenticator)
    return Policy(made, access(config, engine.settings))


def gate(
    config: ServerConfig,
    engine: Engine,
    log: Audit,
    *,
    monotonic: Callable[[], float] = time.monotonic,
) -> Gate:
    """The guard of a server; `monotonic` is the clock for the delays of failed attempts. Raises
    StatementError, UnavailableError as `authenticator` does."""
    return Gate(
        engine,
        policy(config, engine, monotonic=monotonic),
        Limits(quota(config), time.monotonic),
        log,
        Origins(frozenset(config.texts("access.control.allow.origin")), names(config)),
        _functions_of_users(engine.functions),
    )


def names(config: ServerConfig) -> frozenset[str]:
    """The allowed names in Host, from the settings: those that are listed, those of its listeners,
    and the machine's if one listens on all addresses."""
    found = {name.lower() for name in config.texts("millstream.hosts")}
    advertised = config.text("ksql.advertised.listener")
    listeners = [*config.texts("listeners"), *([f"http://{advertised}"] if advertised else [])]
    for listener in listeners:
        host = read_address(listener).host.lower()
        found.add(host)
        if host in EVERYWHERE:
            found.add(socket.gethostname().lower())
    return frozenset(found)


def quota(config: ServerConfig) -> Quota:
    """The limits of a configuration."""
    requests = float(config.count("millstream.request.max.rate"))
    statements = float(config.count("millstream.statement.max.rate"))
    connections = config.count("millstream.connections.max")
    queries = pulls_at_a_time(config) + config.count("ksql.max.push.queries")
    works = {
        Work.QUERY: WorkLimit(queries, float(config.count("ksql.query.pull.max.qps"))),
        Work.STATEMENT: WorkLimit(connections, statements),
        Work.INSERT: WorkLimit(connections, requests),
        Work.OTHER: WorkLimit(connections, requests),
    }
    return Quota(works, config.count("millstream.principal.max.concurrent"), requests)


def pulls_at_a_time(config: ServerConfig) -> int:
    """How many pull queries may run or be queued."""
    waiting = config.count("ksql.query.pull.coordinator.queue.capacity")
    return config.count("ksql.query.pull.max.concurrent.requests") + waiting


def _functions_of_users(known: Catalogue) -> frozenset[str]:
    return frozenset(known.named().keys() - builtin_catalogue().named().keys())


def answer_bounds(config: ServerConfig) -> Bounds:
    """The limits of each session of the server."""
    return Bounds(
        config.count("millstream.result.max.rows"),
        config.count("millstream.result.max.bytes"),
        int(config.seconds("millstream.request.deadline.seconds") * 1000),
    )


def overrides(config: ServerConfig) -> Overrides:
    """The properties that clients may set; raises StatementError for an unknown mode."""
    prefix = "ksql.properties.overrides"
    match config.text(f"{prefix}.validation.mode").lower():
        case "denylist":
            return Overrides(denied=canonical_names(config.texts(f"{prefix}.denylist")))
        case "allowlist":
            return Overrides(allowed=canonical_names(config.texts(f"{prefix}.allowlist")))
        case mode:
            raise StatementError(
                f"{prefix}.validation.mode is '{mode}'.",
                hint="It is denylist or allowlist.",
                code="E-CONFIG",
            )


def _pins(config: ServerConfig) -> dict[str, str]:
    pins = {}
    for entry in config.texts("authentication.jwt.algorithms"):
        kid, _, algorithm = entry.partition("=")
        if algorithm not in ALGORITHMS:
            raise StatementError(
                f"authentication.jwt.algorithms has '{entry}'.",
                hint=f"Write kid=ALG, …; ALG is one of {', '.join(ALGORITHMS)}.",
                code="E-CONFIG",
            )
        pins[kid] = algorithm
    return pins
