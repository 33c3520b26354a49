"""Endpoints times callers, against what guards the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.service.session import Bounds
from millstream_server.access import authorise
from millstream_server.auth import Authenticator, Rules
from millstream_server.config import load_config
from millstream_server.endpoint_needs import endpoint_needs
from millstream_server.passwords import hashed, read_users
from millstream_server.principal import ANONYMOUS, Principal, Refusal
from millstream_server.wiring import access, answer_bounds
from tests.server.keys import NOW, Clock, basic, bearer, claims, signed
from tests.server.matrix import Attempt, attempts
from tests.server.test_auth import CHEAP, tokens

OPEN = [
    *(("GET", path) for path in ("/", "/info", "/healthcheck", "/chc/ready", "/v1/metadata")),
    *(("POST", path) for path in ("/ksql", "/query", "/query-stream", "/inserts-stream")),
    ("POST", "/close-query"),
    ("GET", "/ws/query"),
    ("HEAD", "/info"),
]
GUARDED = [
    ("GET", "/metrics"),
    ("GET", "/status/stream/x/create"),
    ("GET", "/clusterStatus"),
    ("POST", "/ksql/terminate"),
    ("POST", "/heartbeat"),
    ("POST", "/lag"),
    ("POST", "/nowhere"),
    ("DELETE", "/info"),
    ("GET", "/info/../metrics"),
    ("GET", "/ksql"),
]
FLAGS = {"authentication.method": "BASIC", "authentication.users.file": "x"}


@pytest.fixture(scope="module")
def door() -> Authenticator:
    people = f"admin: {hashed('a', CHEAP).text()}, admin\nother: {hashed('o', CHEAP).text()}\n"
    return Authenticator(Rules(), Clock(), users=read_users(people), tokens=tokens(Clock()))


def cases() -> list[Attempt]:
    callers = {
        "none": [],
        "bad": basic("admin", "wrong"),
        "expired": bearer(signed(claims(roles=["admin"], nbf=NOW - 900, exp=NOW - 300))),
        "other": basic("other", "o"),
        "admin": basic("admin", "a"),
    }
    return list(attempts(OPEN + GUARDED, callers, set(OPEN)))


@pytest.mark.parametrize("case", cases(), ids=lambda c: f"{c.method} {c.path} {c.caller}")
def test_role_times_endpoint(case: Attempt, door: Authenticator) -> None:
    # Each from an address of its own: guessing from one would be slowed down.
    address = f"{case.method}{case.path}"
    principal = door.authenticate(case.headers, path=case.path, address=address)
    status = principal.status if isinstance(principal, Refusal) else 0
    if isinstance(principal, Principal):
        rules = access(load_config(flags=FLAGS), "_millstream_")
        refusal = authorise(rules, principal, endpoint_needs(case.method, case.path))
        status = refusal.status if refusal else 0
    assert status == case.status


def test_without_authentication_everybody_is_an_administrator() -> None:
    rules = access(load_config(), "_millstream_")
    assert authorise(rules, ANONYMOUS, endpoint_needs("POST", "/ksql/terminate")) is None


def test_rules_come_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text("allow role:watcher DESCRIBE service:*\n")
    rules = access(load_config(flags={**FLAGS, "authorization.rules.file": str(file)}), "_x_")
    watcher = Principal("w", frozenset({"watcher"}))
    assert authorise(rules, watcher, endpoint_needs("GET", "/metrics")) is None
    assert authorise(rules, watcher, endpoint_needs("POST", "/ksql/terminate")) is not None
    assert authorise(rules, ANONYMOUS, endpoint_needs("GET", "/metrics")) is not None


def test_bounds_of_sessions() -> None:
    assert answer_bounds(load_config()) == Bounds(1_000_000, 64 << 20, 30_000)
