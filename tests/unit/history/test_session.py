"""The requirements of a session are checked before anything is started."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from millstream.history.failures import telling, translated
from millstream.history.master import check_master
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


@pytest.mark.parametrize(("told", "version"), [("11.0.2", 11), ("1.8.0_402", 8)])
def test_an_old_java_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, version: int
) -> None:
    pytest.importorskip("pyspark")
    fake_java(tmp_path, told)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UnavailableError, match=f"is Java {version}\n") as raised:
        check_java()
    assert raised.value.code == "E-SPARK-JAVA" and "openjdk-17" in raised.value.hint


def test_a_missing_java_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UnavailableError, match="JAVA_HOME has no"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="none was found"):
        check_java()


def test_missing_pyspark_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(UnavailableError, match="PySpark is not installed") as raised:
        check_java()
    assert "'.[spark]'" in raised.value.hint


def test_nothing_listens_to_others(tmp_path: Path) -> None:
    options = options_of(SparkSettings(options={"spark.driver.memory": "3g"}), tmp_path)
    assert options["spark.ui.enabled"] == "false"
    assert options["spark.driver.bindAddress"] == "127.0.0.1"
    assert options["spark.driver.memory"] == "3g"


def test_own_options_of_the_jvm_stand_beside_ours(tmp_path: Path) -> None:
    own = {"spark.driver.extraJavaOptions": "-Dhttp.proxyHost=proxy"}
    options = options_of(SparkSettings(options=own), tmp_path)
    assert options["spark.driver.defaultJavaOptions"] == "-XX:TieredStopAtLevel=1"
    assert options["spark.driver.extraJavaOptions"] == own["spark.driver.extraJavaOptions"]
    usual = SparkSettings(options={"spark.driver.defaultJavaOptions": ""})
    assert options_of(usual, tmp_path)["spark.driver.defaultJavaOptions"] == ""


def test_a_cluster_elsewhere_reaches_the_driver(tmp_path: Path) -> None:
    """Within a process, others of the machine are kept out; a cluster has a secret of its own."""

    def options(master: str) -> dict[str, str]:
        return options_of(SparkSettings(master), tmp_path)

    assert options("local[2]")["spark.authenticate"] == "true"
    assert options("spark://127.0.0.1:7077")["spark.driver.host"] == "127.0.0.1"
    assert "spark.authenticate" not in options("spark://127.0.0.1:7077")
    assert options("local-cluster[2,1,1024]")["spark.driver.bindAddress"] == "127.0.0.1"
    for master in ("spark://one:7077,127.0.0.1:7077", "k8s://https://cluster:6443", "yarn"):
        assert not {"spark.driver.host", "spark.driver.bindAddress"} & options(master).keys()


def test_a_cluster_that_does_not_answer_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as up:
        port = up.getsockname()[1]
        check_master(f"spark://127.0.0.1:{port}")
        with socket.create_server(("127.0.0.1", 0)) as down:
            other = down.getsockname()[1]
        check_master(f"spark://127.0.0.1:{other},127.0.0.1:{port}")
    with pytest.raises(UnavailableError, match="No Spark master answers") as raised:
        check_master(f"spark://127.0.0.1:{port},127.0.0.1:{other}")
    assert raised.value.code == "E-SPARK" and "URL" in raised.value.hint
    check_master("local[2]")
    check_master("k8s://https://127.0.0.1:1")


def test_errors_are_ours() -> None:
    own = StatementError("mine")
    assert translated(own, "Q") is own
    cancelled = translated(RuntimeError("[SPARK_JOB_CANCELLED] Job 3 cancelled"), "Q")
    assert cancelled.code == "E-CANCELLED"
    assert "lost its Spark" in str(translated(ConnectionRefusedError("x"), "Q"))


CRASHED = """An error occurred while calling o263.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 4.0 failed 4\
 times, most recent failure: Lost task 0.3 in stage 4.0 (TID 7) (localhost executor driver):\
 org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider more.
\tat org.apache.spark.api.python.BasePythonRunner.applyOrElse(PythonRunner.scala:1136)
Caused by: java.io.EOFException
"""
LACKING = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 9, in main
    import millstream
ModuleNotFoundError: No module named 'millstream'
"""
LAZY = """An error occurred while calling o139.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult: \n\
\tat org.apache.spark.util
Caused by: org.apache.spark.SparkException: There is no room left on the device
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        (CRASHED, "Python worker exited unexpectedly (crashed). Consider more.", "memory"),
        (LACKING, "ModuleNotFoundError: No module named 'millstream'", "Install Millstream"),
        (LAZY, "There is no room left on the device", ""),
        ("all of it\nmore", "all of it", ""),
        ("", "RuntimeError", ""),
    ],
)
def test_an_error_of_sparks_says_what_has_happened(text: str, said: str, hint: str) -> None:
    error = translated(RuntimeError(text), "Q")
    assert error.detail == said == telling(RuntimeError(text))
    assert hint in error.hint
