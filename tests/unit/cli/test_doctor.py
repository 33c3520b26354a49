"""`millstream doctor`: what it finds here, and on machines where something is wrong."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from millstream_cli.doctor import findings
from millstream_cli.doctor.findings import EXTRAS, Finding, Health, missing, of_this_machine
from millstream_cli.main import main
from millstream_cli.options import COMMANDS
from millstream_cli.storage import COMMANDS as STORAGE

Captured = pytest.CaptureFixture[str]


def found(folder: Path) -> dict[str, Finding]:
    return {finding.subject: finding for finding in of_this_machine(folder)}


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """As if these packages were not installed."""
    known: Callable[[str], str] = importlib.metadata.version

    def version(name: str) -> str:
        if name in names:
            raise importlib.metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_this_machine(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    for subject in ("Millstream", "libraries", "kafka", "server", "spark", "disk", "clock"):
        assert f"  {subject} " in shown
    assert shown.endswith("All is well.\n")
    assert list(tmp_path.iterdir()) == []


def test_every_extra_of_users_is_examined() -> None:
    offered = set(importlib.metadata.metadata("millstream").get_all("Provides-Extra") or ())
    # The client of a registry is that of Kafka; the others are for those who work on Millstream.
    assert offered - {"registry", "dev", "demo"} <= EXTRAS.keys()
    assert all(findings.required(extra) for extra in EXTRAS)
    assert "duckdb" in findings.required(None) and "uvicorn" not in findings.required(None)


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_that_is_not_installed_is_no_fault(
    extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = findings.required(extra)[0].partition("[")[0]
    without(monkeypatch, name)
    assert missing(extra)[0] == name
    finding = found(tmp_path)[extra]
    assert finding.health is Health.ABSENT
    # Brackets are there, and no package is named that is on no index.
    assert finding.advice == f"pip install '.[{extra}]' in a clone of Millstream"


def test_a_library_that_is_missing_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    without(monkeypatch, "sqlglot")
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "!!  libraries         not installed: sqlglot" in shown
    assert shown.endswith("1 of these are bad (!!).\n")


def test_code_that_was_not_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "compiled_formats", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    finding = found(tmp_path)["compiled formats"]
    assert finding.health is Health.ABSENT and "C compiler" in finding.advice


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: Captured) -> None:
    assert main(["doctor", "--database", str(tmp_path / "no" / "shop.db")]) == 1
    shown = capsys.readouterr().out
    assert "!!  disk " in shown and "No such file" in shown


class Usage(NamedTuple):
    free: int


def test_a_disk_that_is_nearly_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10_000_000))
    finding = found(tmp_path)["disk"]
    assert finding.health is Health.BAD and finding.text.startswith("0.0 GB are free")


def test_a_clock_that_was_never_set() -> None:
    finding = findings._clock(dt.datetime(1970, 1, 1, tzinfo=dt.UTC))
    assert finding.health is Health.BAD and "1970" in finding.text


def test_what_does_not_answer(tmp_path: Path, capsys: Captured) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server, registry = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port}/r"
    code = main(["doctor", "--database", str(tmp_path / "x.db"), "--server", server,
                 "--schema-registry", registry, "--registry-setting",
                 "basic.auth.user.info=ann:secret"])  # fmt: skip
    shown = capsys.readouterr().out
    assert code == 1
    assert "!!  schema registry" in shown and "!!  server" in shown
    assert "secret" not in shown


def test_help_tells_all_commands(capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert COMMANDS.strip() in shown
    for command in (
        *STORAGE,
        "server start",
        "server user",
        "test",
        "pipeline",
        "doctor",
        "demo",
        "datagen",
    ):
        assert command in COMMANDS
