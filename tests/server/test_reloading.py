"""What SIGHUP reads again, and what it leaves as it was."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from millstream.model.clock import now_ms
from millstream.model.errors import StatementError
from millstream.model.settings import EngineSettings
from millstream.service.execution import open_engine
from millstream_server.auth.audit import Audit, Event
from millstream_server.auth.passwords import hashed
from millstream_server.auth.principal import Principal
from millstream_server.bootstrap.config import load_config
from millstream_server.bootstrap.reloading import AuditFile, Certificate, Reloading
from millstream_server.bootstrap.wiring import gate
from millstream_server.http.listening import Tls
from tests.certified import Authority, authority
from tests.patience import PATIENCE_S, until
from tests.server.guarded import HEADERS
from tests.server.test_auth import CHEAP


def write(path: Path, text: str, mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def line(name: str, password: str, role: str) -> str:
    return f"{name}: {hashed(password, CHEAP).text()}, {role}\n"


class Parts:
    """What a running server has of its files."""

    def __init__(self, folder: Path, ours: Authority, stack: ExitStack) -> None:
        self.users, self.rules, self.log = folder / "users", folder / "rules", folder / "audit"
        self.pem = ours.signed("server", folder)
        flags = {
            "authentication.method": "BASIC",
            "authentication.users.file": write(self.users, line("reader", "reader", "reader")),
            "authorization.rules.file": write(self.rules, "allow role:reader READ topic:a\n"),
        }
        engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
        stack.callback(engine.close)
        self.audit_file = AuditFile(str(self.log))
        stack.callback(self.audit_file.close)
        log = Audit(self.audit_file.write, lambda: 0.0)
        config = load_config(flags=flags)
        self.gate = gate(config, engine, log, monotonic=lambda: 0.0)
        self.certificate = Certificate(Tls(str(self.pem), str(self.pem)))
        self.reloading = Reloading(config, self.gate, log, self.certificate, self.audit_file)

    def role(self, caller: str) -> str | None:
        """The role that a caller has now, None where they are not let in."""
        headers = [(k.encode(), v.encode()) for k, v in HEADERS[caller]().items()]
        found = self.gate.policy.authenticator.authenticate(headers, address="a")
        return next(iter(found.roles)) if isinstance(found, Principal) else None

    def events(self) -> list[dict[str, Any]]:
        """The audit log's entries about reloading."""
        found = [json.loads(text) for text in self.log.read_text().splitlines()]
        return [event for event in found if event.get("action") == "reload"]


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    with ExitStack() as stack:
        yield Parts(tmp_path, authority("ours", tmp_path), stack)


def test_users_and_rules_are_others(parts: Parts) -> None:
    assert (parts.role("reader"), parts.role("admin")) == ("reader", None)
    write(parts.users, line("admin", "admin", "admin") + line("reader", "another", "reader"))
    write(parts.rules, "deny everyone ALL topic:*\n")
    rules = parts.gate.policy.access.rules
    assert parts.reloading.reload() == ()
    # A password that was right a moment ago is not remembered.
    assert (parts.role("reader"), parts.role("admin")) == (None, "admin")
    assert parts.gate.policy.access.rules != rules
    assert [event["kind"] for event in parts.events()] == [
        "users and rules",
        "certificates",
        "audit log",
    ]


BROKEN = {
    "users that are none": lambda parts: write(parts.users, "reader: canary\n"),
    "users that others may read": lambda parts: write(
        parts.users, line("admin", "admin", "admin"), 0o644
    ),
    "no users' file": lambda parts: parts.users.unlink(),
    "rules that are none": lambda parts: write(parts.rules, "allow everything\n"),
    "users that are right beside rules that are none": lambda parts: (
        write(parts.users, line("admin", "admin", "admin")),
        write(parts.rules, "allow everything\n"),
    ),
    "a users' file that is no text": lambda parts: parts.users.write_bytes(b"\xff\xfe"),
}


@pytest.mark.parametrize("breaking", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_changes_nothing_and_is_reported(
    parts: Parts, breaking: Any, caplog: pytest.LogCaptureFixture
) -> None:
    before = parts.gate.policy
    breaking(parts)
    assert parts.reloading.reload() == ("users and rules",)
    assert parts.gate.policy is before
    assert (parts.role("reader"), parts.role("admin")) == ("reader", None)
    assert "stay as they were" in caplog.text and "canary" not in caplog.text
    assert parts.events()[0]["error"] and "error" not in parts.events()[1]


def test_delays_of_failed_attempts_continue(parts: Parts) -> None:
    for _ in range(20):
        assert parts.role("wrong password") is None
    assert parts.reloading.reload() == ()
    headers = [(k.encode(), v.encode()) for k, v in HEADERS["wrong password"]().items()]
    found = parts.gate.policy.authenticator.authenticate(headers, address="a")
    assert not isinstance(found, Principal) and found.status == 429


def test_a_broken_certificate_is_not_shown(parts: Parts) -> None:
    before = parts.certificate.context()
    whole = parts.pem.read_text()
    for text in ("", whole[: len(whole) // 2], whole.replace("CERTIFICATE", "NOTHING")):
        parts.pem.write_text(text)
        assert parts.reloading.reload() == ("certificates",)
        assert parts.certificate.context() is before
    parts.pem.write_text(whole)
    assert parts.reloading.reload() == ()
    assert parts.certificate.context() is not before


def test_the_audit_log_goes_on_in_a_new_file(parts: Parts, tmp_path: Path) -> None:
    parts.reloading.log.event(Event.ADMIN, note="first")
    moved = tmp_path / "audit.1"
    parts.log.rename(moved)
    parts.reloading.log.event(Event.ADMIN, note="second")
    assert parts.reloading.reload() == ()
    parts.reloading.log.event(Event.ADMIN, note="third")
    assert '"first"' in moved.read_text() and '"second"' in moved.read_text()
    assert '"third"' in parts.log.read_text() and '"third"' not in moved.read_text()
    assert parts.log.stat().st_mode & 0o777 == 0o600
    # Where there can be no file, the old one is written on.
    kept = tmp_path / "audit.2"
    parts.log.rename(kept)
    parts.log.mkdir()
    assert parts.reloading.reload() == ("audit log",)
    assert "audit log" in kept.read_text().splitlines()[-1]


def test_an_audit_log_that_cannot_be_had(tmp_path: Path) -> None:
    with pytest.raises(StatementError, match="Cannot write the audit log"):
        AuditFile(str(tmp_path))


def test_a_signal_reads_again(tmp_path: Path) -> None:
    """Of a process: new connections see the new certificate, an open one goes on, and a broken
    file ends nothing."""
    ours, others = authority("ours", tmp_path), authority("others", tmp_path)
    users, log = tmp_path / "users", tmp_path / "audit"
    pem = ours.signed("server", tmp_path)
    settings = {
        "listeners": "https://127.0.0.1:0",
        "authentication.method": "BASIC",
        "authentication.users.file": write(users, line("reader", "reader", "admin")),
        "ssl.keystore.location": str(pem),
        "millstream.audit.file": str(log),
    }
    flags = [f"--property={name}={value}" for name, value in settings.items()]
    process = subprocess.Popen(
        [sys.executable, "-m", "millstream_cli.main", "server", "start", *flags],
        env=dict(os.environ),
        stderr=subprocess.DEVNULL,
    )

    def events(text: str) -> int:
        return log.read_text().count(text) if log.exists() else 0

    try:
        until(lambda: events('"started"') == 1)
        started = next(x for x in map(json.loads, log.read_text().splitlines()) if "listeners" in x)
        url = started["listeners"][0]
        old, new = (ssl.create_default_context(cafile=str(a.file)) for a in (ours, others))
        client = httpx.Client(base_url=url, verify=old, timeout=PATIENCE_S)
        with client as open_before:
            assert open_before.get("/info", auth=("reader", "reader")).status_code == 200
            pem.write_bytes(others.signed("server", tmp_path).read_bytes())
            write(users, line("admin", "admin", "admin"))
            process.send_signal(signal.SIGHUP)
            until(lambda: events('"reload"') == 3)
            assert open_before.get("/info", auth=("reader", "reader")).status_code == 401
            assert open_before.get("/info", auth=("admin", "admin")).status_code == 200
        with httpx.Client(base_url=url, verify=new, timeout=PATIENCE_S) as client:
            assert client.get("/info", auth=("admin", "admin")).status_code == 200
            users.write_text("broken")
            pem.write_text("broken")
            process.send_signal(signal.SIGHUP)
            until(lambda: events('"error"') == 2 and events('"reload"') == 6)
        with httpx.Client(base_url=url, verify=new, timeout=PATIENCE_S) as client:
            assert client.get("/info", auth=("admin", "admin")).status_code == 200
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
