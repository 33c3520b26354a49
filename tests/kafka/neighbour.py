"""`python -m tests.kafka.neighbour SERVERS SERVICE STANDBYS`: one more instance of a service, until
it is killed. It prints `ready` when it has started."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import millstream
from millstream import InstanceSettings
from tests.crash.engine_process import ROOT

SHARING = InstanceSettings(
    session_timeout_ms=6_000,
    standby_replicas=1,
    acceptable_recovery_lag=10,
    probing_rebalance_interval_ms=500,
)


@contextmanager
def neighbour(servers: str, service: str, standbys: int = 1) -> Iterator[subprocess.Popen[str]]:
    """One more instance, which is killed in the end."""
    command = [sys.executable, "-m", "tests.kafka.neighbour", servers, service, str(standbys)]
    made = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert made.stdout is not None and made.stdout.readline() == "ready\n"
        yield made
    finally:
        made.kill()
        made.wait()


if __name__ == "__main__":
    _, servers, service, standbys = sys.argv
    sharing = replace(SHARING, standby_replicas=int(standbys))
    with millstream.connect(kafka=servers, service_id=service, sharing=sharing):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        threading.Event().wait()
