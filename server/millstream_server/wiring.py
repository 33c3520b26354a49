"""From a configuration to what guards the server."""

from __future__ import annotations

import time
from collections.abc import Callable

from millstream.model.errors import StatementError
from millstream.service.session import Bounds
from millstream_server.access import Access, read_rules
from millstream_server.auth import Authenticator, Rules
from millstream_server.boot import methods
from millstream_server.certificates import read_subjects
from millstream_server.config import ServerConfig
from millstream_server.jwks import ALGORITHMS, open_keys
from millstream_server.passwords import read_users
from millstream_server.secret import read_private, read_settings
from millstream_server.tokens import Tokens


def authenticator(
    config: ServerConfig,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    now: Callable[[], float] = time.time,
) -> Authenticator:
    """What tells principals apart, with the files read. Raises StatementError for a file that
    is wrong or open to others, UnavailableError where signing keys cannot be had."""
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


def access(config: ServerConfig, internal: str) -> Access:
    """The rules in force; `internal`: what the names of the engine's own topics begin with.

    Without authentication everybody may do everything; with it, what the rules' file allows,
    and where there is none, the administrators alone.
    """
    path = config.text("authorization.rules.file")
    rules = read_rules(read_settings(path)) if path else ()
    admins = frozenset(config.texts("authorization.admin.roles"))
    return Access(rules, admins, internal, open=not methods(config))


def answer_bounds(config: ServerConfig) -> Bounds:
    """The bounds that each session of the server is given."""
    return Bounds(
        config.count("millstream.result.max.rows"),
        config.count("millstream.result.max.bytes"),
        int(config.seconds("millstream.request.deadline.seconds") * 1000),
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
