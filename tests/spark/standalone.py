"""A standalone Spark cluster of worker processes on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyspark

HOST = "127.0.0.1"
WORKERS = 2
PATIENCE_SECONDS = 300


@contextmanager
def cluster() -> Iterator[str]:
    """The address of a master with its workers, which end with the block."""
    home = str(Path(pyspark.__file__).parent)
    environment = os.environ | {
        "SPARK_HOME": home,
        "SPARK_LOCAL_IP": HOST,
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
    }
    port = free_port()
    master = f"spark://{HOST}:{port}"
    running: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="millstream-cluster-") as folder:
        output = Path(folder) / "output"
        with output.open("wb") as log:

            def begin(*arguments: str) -> None:
                command = [f"{home}/bin/spark-class", *arguments]
                running.append(_started(command, environment, folder, log))

            try:
                begin(
                    "org.apache.spark.deploy.master.Master",
                    *("--host", HOST, "--port", str(port), "--webui-port", str(free_port())),
                )
                wait_for(output, "Starting Spark master", 1)
                for _ in range(WORKERS):
                    begin(
                        "org.apache.spark.deploy.worker.Worker",
                        master,
                        *("--host", HOST, "--cores", "1", "--memory", "1g"),
                        *("--webui-port", str(free_port()), "--work-dir", folder),
                    )
                wait_for(output, "Registering worker", WORKERS)
                yield master
            finally:
                for process in reversed(running):
                    process.terminate()
                    process.wait(30)


def _started(
    command: list[str], environment: dict[str, str], folder: str, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT
    )


def wait_for(output: Path, text: str, times: int) -> None:
    """Wait until a text was printed so often."""
    until = time.monotonic() + PATIENCE_SECONDS
    while output.read_text(errors="replace").count(text) < times:
        if time.monotonic() > until:
            raise SystemExit(f"The cluster did not start:\n{output.read_text(errors='replace')}")
        time.sleep(0.1)


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
