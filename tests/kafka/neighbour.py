"""`python -m tests.kafka.neighbour SERVERS SERVICE`: one more instance of a service, until it is
killed. It prints `ready` when it has started."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import millstream
from millstream import InstanceSettings
from tests.crash.engine_process import ROOT

SHARING = InstanceSettings(session_timeout_ms=6_000, standby_replicas=1)


@contextmanager
def neighbour(servers: str, service: str) -> Iterator[subprocess.Popen[str]]:
    """One more instance, which is killed in the end."""
    command = [sys.executable, "-m", "tests.kafka.neighbour", servers, service]
    made = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert made.stdout is not None and made.stdout.readline() == "ready\n"
        yield made
    finally:
        made.kill()
        made.wait()


if __name__ == "__main__":
    _, servers, service = sys.argv
    with millstream.connect(kafka=servers, service_id=service, sharing=SHARING):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        threading.Event().wait()
