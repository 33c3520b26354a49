"""Pull queries by key over keep-alive connections: how many, and how late.

Once by wrk, as fast as the connections go (each sends the next query after a response), and once at
the steady rate of the goal (`steady.py`). Responses are checked by queries for known rows
meanwhile.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.server.steady import steadily
from tests.bench.server.world import Serving

GOAL_PER_S = 2_000
GOAL_P99_MS = 20.0
ASKED_PER_S = 2_050
"""The steady rate: a little more than the goal."""
CHECKS_PER_S = 5
_SCRIPT = Path(__file__).with_name("pull.lua")


@dataclass(frozen=True, slots=True)
class Load:
    """The measurements, and the server's resources."""

    name: str
    per_s: float
    p50_ms: float
    p99_ms: float
    failed: int
    checked: int
    cpu_s: float
    cpu_us_each: float
    rss_mb: float

    def __str__(self) -> str:
        return (
            f"{self.name:>8}: {self.per_s:7,.0f} queries/s, p50 {self.p50_ms:6.2f} ms, p99"
            f" {self.p99_ms:6.2f} ms; {self.failed} failed, {self.checked} checked; server"
            f" {self.cpu_s:.1f} CPU-s ({self.cpu_us_each:.0f} us a query), {self.rss_mb:.0f} MB"
        )

    @property
    def good(self) -> bool:
        """Whether the goal is met."""
        return self.per_s >= GOAL_PER_S and self.p99_ms < GOAL_P99_MS and not self.failed


def pulls(server: Serving, keys: int, *, seconds: int, connections: int) -> list[Load]:
    """Measure both; the first seconds warm up."""
    wrk(server, keys, 3, connections, 0)
    return [
        _measured("flat out", server, keys, lambda: _flat_out(server, keys, seconds, connections)),
        _measured("steady", server, keys, lambda: _steady(server, keys, seconds, connections)),
    ]


@dataclass(frozen=True, slots=True)
class _Seen:
    requests: int
    seconds: float
    failed: int
    p50_ms: float
    p99_ms: float


def _flat_out(server: Serving, keys: int, seconds: int, connections: int) -> _Seen:
    requests, duration_us, failed, p50_us, p99_us = wrk(server, keys, seconds, connections, 0)
    return _Seen(requests, duration_us / 1e6, failed, p50_us / 1000, p99_us / 1000)


def _steady(server: Serving, keys: int, seconds: int, connections: int) -> _Seen:
    found = steadily(server, keys, per_s=ASKED_PER_S, seconds=seconds, connections=connections)
    p50, p99 = found.percentile(0.5), found.percentile(0.99)
    return _Seen(len(found.took_ms), found.seconds, found.failed, p50, p99)


def _measured(name: str, server: Serving, keys: int, load: Callable[[], _Seen]) -> Load:
    ended, checked = threading.Event(), []
    checking = threading.Thread(target=_check, args=(server, keys, ended, checked))
    before = server.cpu_s()
    checking.start()
    try:
        seen = load()
    finally:
        ended.set()
        checking.join()
    wrong = [key for key, right in checked if not right]
    if wrong or not checked:
        raise RuntimeError(f"Wrong answers for {wrong}, of {len(checked)} checked")
    cpu_s = server.cpu_s() - before
    return Load(
        name,
        seen.requests / seen.seconds,
        seen.p50_ms,
        seen.p99_ms,
        seen.failed,
        len(checked),
        cpu_s,
        cpu_s / seen.requests * 1e6,
        server.rss_mb(),
    )


def wrk(server: Serving, keys: int, seconds: int, connections: int, pause_ms: int) -> list[int]:
    """Requests, us, how many failed, and the us that 50 % and 99 % of them took at most."""
    program = shutil.which("wrk")
    if program is None:
        raise RuntimeError("wrk is needed: apt-get install wrk, or brew install wrk")
    command = [program, "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s"]
    found = subprocess.run(
        [*command, "-s", str(_SCRIPT), f"http://{server.host}/query-stream"],
        env={**os.environ, "KEYS": str(keys), "PAUSE_MS": str(pause_ms)},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = (line for line in found.stdout.splitlines() if line.startswith("RESULT "))
    return [int(word) for word in line.split()[1:]]


def _check(
    server: Serving, keys: int, ended: threading.Event, checked: list[tuple[str, bool]]
) -> None:
    chance = random.Random(1)
    while not ended.wait(1 / CHECKS_PER_S):
        number = chance.randrange(keys)
        key = f"user_{number}"
        checked.append((key, server.row(key) == [key, 1, number % 1000]))
    checked.append(("nobody", server.row("nobody") == []))
