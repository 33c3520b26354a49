"""What a session needs is asked for before anything is started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from millstream.history.failures import translated
from millstream.history.session import SparkSettings, check_java, java_version, options_of
from millstream.model.errors import StatementError, UnavailableError


def fake_java(folder: Path, version: str) -> None:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(0o755)


def test_the_version_of_java_is_read(tmp_path: Path) -> None:
    fake_java(tmp_path, "21.0.1")
    assert java_version(str(tmp_path / "bin" / "java")) == 21
    assert java_version(str(tmp_path / "nothing")) is None


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UnavailableError, match="is Java 11") as raised:
        check_java()
    assert "openjdk-17" in raised.value.hint


def test_missing_pyspark_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(UnavailableError, match="PySpark is not installed") as raised:
        check_java()
    assert "millstream[spark]" in raised.value.hint


def test_nothing_listens_to_others(tmp_path: Path) -> None:
    options = options_of(SparkSettings(options={"spark.driver.memory": "3g"}), tmp_path)
    assert options["spark.ui.enabled"] == "false"
    assert options["spark.driver.bindAddress"] == "127.0.0.1"
    assert options["spark.driver.memory"] == "3g"


def test_errors_are_ours() -> None:
    own = StatementError("mine")
    assert translated(own, "Q") is own
    cancelled = translated(RuntimeError("[SPARK_JOB_CANCELLED] Job 3 cancelled"), "Q")
    assert cancelled.code == "E-CANCELLED"
    assert "lost its Spark" in str(translated(ConnectionRefusedError("x"), "Q"))
