"""Attack a server that has no configuration, and measure what another client notices:
`python -m tests.fuzz.attacks`. With --source, of another clone (to compare), where figures are
printed and nothing is expected.

Delays are those of another client's requests, each on a connection of its own, beside the attack
and without it; CPU and memory are the server's.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import resource
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.fuzz.floods import FLOODS, FOREIGN, OPENING, SILENT

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("grammar", "parser", "engine", "server", "cli")
SOCKETS = 1_000
ALONE = 300
"""Requests before an attack, and again after it: a busy machine delays some of these, too."""
DEADLINE_S = 10.0
"""The server's own; later ones were not closed by it."""
LATER_S = 3.0
FLOOD_S = 5.0
FLOODING = 4
"""Connections at a time."""
DELAY_MS_MAX = 50.0
GROWTH_MB_MAX = 64.0
READERS = 50
STALL_S = 5
PATIENCE_S = 30.0
_START = "import sys; from millstream_cli.main import main; sys.exit(main(sys.argv[1:]))"
_TICKS = os.sysconf("SC_CLK_TCK")
MADE = (
    "CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', format='JSON', partitions=1);"
    "CREATE TABLE t (id INT PRIMARY KEY, v STRING)"
    " WITH (kafka_topic='s', format='JSON', partitions=1);"
    "CREATE TABLE big AS SELECT * FROM t;"
)


@dataclass(frozen=True)
class Target:
    """A server that runs, as a process."""

    host: str
    port: int
    pid: int

    def connected(self) -> socket.socket:
        """A connection."""
        return socket.create_connection((self.host, self.port), PATIENCE_S)

    def cpu_s(self) -> float:
        """What it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory_mb(self) -> float:
        """What it has of memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Status and body of an answer, on a connection of its own."""
        client = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        with contextlib.closing(client):
            client.request(method, path, None if body is None else json.dumps(body))
            answer = client.getresponse()
            return answer.status, answer.read()


@dataclass
class Delays:
    """How long another client waited, and how often in vain."""

    ms: list[float] = field(default_factory=list)
    failed: int = 0

    def once(self, target: Target) -> None:
        """Send a small request."""
        begun = time.perf_counter()
        try:
            good = target.ask("GET", "/info")[0] == 200
        except (OSError, http.client.HTTPException):
            good = False
        if good:
            self.ms.append(1_000 * (time.perf_counter() - begun))
        else:
            self.failed += 1

    def add(self, others: Delays) -> None:
        """Count others' with its own."""
        self.ms += others.ms
        self.failed += others.failed

    def at(self, share: float) -> float:
        """The delay that this share of the requests did not pass."""
        found = sorted(self.ms)
        return found[min(len(found) - 1, int(share * len(found)))] if found else float("inf")

    def __str__(self) -> str:
        if not self.ms:
            return f"all {self.failed} requests failed"
        shown = ", ".join(f"p{share} {self.at(share / 100):.1f} ms" for share in (50, 95, 99))
        return f"{shown}, {self.failed} of {len(self.ms) + self.failed} failed"


@dataclass
class Findings:
    """The report, and its failures."""

    expected: bool
    figures: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def add(self, name: str, figure: str, good: bool) -> None:
        """A figure, and whether it is as it should be."""
        self.figures[name] = figure
        mark = "" if good or not self.expected else "   <- WRONG"
        print(f"{name:<44} {figure}{mark}", flush=True)
        if not good:
            self.wrong.append(name)


@contextmanager
def running(source: Path) -> Iterator[Target]:
    """A server of a clone, with the default configuration, except that slow readers are
    disconnected sooner."""
    paths = os.pathsep.join(str(source / room) for room in ROOMS)
    arguments = ["server", "start", "--listener", "http://127.0.0.1:0"]
    if (source / "server/millstream_server/http/admission.py").exists():
        arguments += ["--property", f"millstream.answer.stall.seconds={STALL_S}"]
    process = subprocess.Popen(
        [sys.executable, "-c", _START, *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=source,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    found = None
    for line in iter(process.stderr.readline, ""):
        found = re.search(r"listens on (\S+?)[.,] ", line)
        if found:
            break
    assert found, "the server has not started"
    # Its later output is not read, but must not fill the pipe.
    threading.Thread(target=process.stderr.read, daemon=True).start()
    parts = urlsplit(found[1])
    try:
        yield Target(str(parts.hostname), int(parts.port or 0), process.pid)
    finally:
        process.kill()
        process.wait()


def probed(target: Target, count: int) -> Delays:
    """The delays of so many requests, one after another."""
    delays = Delays()
    for _ in range(count):
        delays.once(target)
    return delays


def still_open(sockets: list[socket.socket]) -> int:
    """How many of the connections the server has not ended. What it has sent is read."""
    count = 0
    for client in sockets:
        client.setblocking(False)
        try:
            while client.recv(65_536):
                pass
        except BlockingIOError:
            count += 1
        except OSError:
            continue
    return count


def silent(target: Target, found: Findings) -> None:
    """1,000 connections that send nothing, or too little."""
    for name, sent in SILENT.items():
        alone = probed(target, ALONE)
        with ExitStack() as stack:
            sockets = []
            during = Delays()
            for number in range(SOCKETS):
                with contextlib.suppress(OSError):
                    client = stack.enter_context(target.connected())
                    client.sendall(sent)
                    sockets.append(client)
                if number % 4 == 0:
                    during.once(target)
            over = time.monotonic() + DEADLINE_S + LATER_S
            while time.monotonic() < over:
                # Also while they are closed.
                during.once(target)
                time.sleep(0.02)
            left = still_open(sockets)
        alone.add(probed(target, ALONE))
        grown = during.at(0.99) - alone.at(0.99)
        figure = f"{during} (without the attack: {alone}); {left} open after 13 s"
        good = not during.failed and grown <= DELAY_MS_MAX and not left
        found.add(f"{SOCKETS} sockets: {name}", figure, good)


def _flood(target: Target, pieces: Callable[[], Iterator[bytes]], until: float) -> None:
    while time.monotonic() < until:
        try:
            with target.connected() as client:
                client.setblocking(False)
                for piece in pieces():
                    _send(client, piece, until)
        except OSError:
            time.sleep(0.05)


def _send(client: socket.socket, piece: bytes, until: float) -> None:
    """Send all of it, reading what comes; OSError where the connection, or the time, is over."""
    view = memoryview(piece)
    while view:
        if time.monotonic() >= until:
            raise TimeoutError
        readable, writable, _ = select.select([client], [client], [], 0.1)
        if readable and not client.recv(65_536):
            raise ConnectionResetError
        if writable:
            view = view[client.send(view) :]


def floods(target: Target, found: Findings) -> None:
    """Connections that send as much as they can, and come back when they are ended."""
    for name, pieces in FLOODS.items():
        before = probed(target, 50)
        cpu, memory = target.cpu_s(), target.memory_mb()
        begun = time.monotonic()
        until = begun + FLOOD_S
        flooding = [
            threading.Thread(target=_flood, args=(target, pieces, until)) for _ in range(FLOODING)
        ]
        for thread in flooding:
            thread.start()
        during, most = Delays(), memory
        while time.monotonic() < until:
            during.once(target)
            most = max(most, target.memory_mb())
            time.sleep(0.01)
        for thread in flooding:
            thread.join()
        used = (target.cpu_s() - cpu) / (time.monotonic() - begun)
        grown = most - memory
        figure = f"{100 * used:.0f} % of a core, +{grown:.0f} MB, {during} (before: {before})"
        good = not during.failed and grown <= GROWTH_MB_MAX
        found.add(f"flood: {name}", figure, good)


def readers(target: Target, found: Findings) -> None:
    """Clients that request megabytes and read nothing."""
    rows = [{"target": "s"}, *({"ID": n, "V": "x" * 1_000} for n in range(4_000))]
    statements = [f"INSERT INTO s (id, v) VALUES ({row['ID']}, '{row['V']}');" for row in rows[1:]]
    for start in range(0, len(statements), 10):
        target.ask("POST", "/ksql", {"ksql": "".join(statements[start : start + 10])})
    query = json.dumps({"sql": "SELECT * FROM big;"}).encode()
    head = b"POST /query-stream HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
    memory = target.memory_mb()
    with ExitStack() as stack:
        sockets = []
        for _ in range(READERS):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect((target.host, target.port))
            client.sendall(head % len(query) + query)
            sockets.append(client)
        time.sleep(2.0)
        grown = target.memory_mb() - memory
        during = probed(target, 50)
        time.sleep(STALL_S + LATER_S)
        left = _established(target, sockets)
    figure = f"+{grown:.0f} MB, {during}; {left} open {STALL_S + LATER_S + 2:.0f} s later"
    found.add(f"{READERS} readers that take nothing", figure, not during.failed and not left)


def _established(target: Target, sockets: list[socket.socket]) -> int:
    """How many connections the server still has, by the system's table: to read from them would
    be to take something."""
    ours = {client.getsockname()[1] for client in sockets}
    count = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        local, remote, state = line.split()[1:4]
        ports = int(local.rpartition(":")[2], 16), int(remote.rpartition(":")[2], 16)
        count += ports[0] == target.port and ports[1] in ours and state == "01"
    return count


def foreign(target: Target, found: Findings) -> None:
    """What a page in a browser could do: read, change, open a websocket."""
    change = json.dumps({"ksql": "SHOW STREAMS;"}).encode()
    post = b"POST /ksql HTTP/1.1\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n"
    asked = {
        "reads": (b"GET /info HTTP/1.1\r\n", b"\r\n"),
        "changes": (post % len(change), b"\r\n" + change),
        "websocket": (OPENING.replace(b"host: localhost\r\n", b"")[:-2] % b"%7B%7D", b"\r\n"),
    }
    for name, headers in FOREIGN.items():
        told = {}
        for what, (head, rest) in asked.items():
            with target.connected() as client:
                client.sendall(head + "".join(f"{line}\r\n" for line in headers).encode() + rest)
                answer = client.recv(65_536)
                told[what] = int(answer.split(b" ", 2)[1]) if answer else 0
        figure = ", ".join(f"{what} {status}" for what, status in told.items())
        found.add(f"foreign: {name}", figure, all(s in (403, 421) for s in told.values()))


def texts(target: Target, found: Findings) -> None:
    """Requests that are much for what reads them."""
    deep = b'{"ksql": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    many = b"".join(b"x-%d: y\r\n" % number for number in range(400))
    sent = {
        "JSON 200,000 levels deep": b"POST /ksql HTTP/1.1\r\nhost: localhost\r\n"
        b"content-length: %d\r\n\r\n" % len(deep) + deep,
        "400 headers": b"GET /info HTTP/1.1\r\nhost: localhost\r\n" + many + b"\r\n",
    }
    for name, data in sent.items():
        begun = time.perf_counter()
        with target.connected() as client:
            client.sendall(data)
            answer = client.recv(65_536)
            status = int(answer.split(b" ", 2)[1]) if answer else 0
        figure = f"{status} after {1_000 * (time.perf_counter() - begun):.0f} ms"
        found.add(name, figure, status in (400, 431))


ATTACKS = (foreign, texts, silent, floods, readers)


def main(arguments: list[str] | None = None) -> int:
    """Attack, print, and fail where something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, help="another clone of this repository")
    parser.add_argument("--only", default="", help="the name of one kind of attack")
    parser.add_argument("--report", type=Path, help="a file for the figures, as JSON")
    options = parser.parse_args(arguments)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8 * SOCKETS), hard))
    found = Findings(expected=options.source is None)
    for attack in ATTACKS:
        if options.only in ("", attack.__name__):
            with running((options.source or ROOT).resolve()) as target:
                assert target.ask("POST", "/ksql", {"ksql": MADE})[0] == 200
                attack(target, found)
    if options.report:
        options.report.write_text(json.dumps(found.figures, indent=1))
    return 1 if found.expected and found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
