"""A server over a file with a table of many keys, and what its process uses."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PARTITIONS = 4
BATCH = 200_000
STATEMENTS = f"""
CREATE STREAM visits (id STRING KEY, amount BIGINT)
  WITH (KAFKA_TOPIC='visits', PARTITIONS={PARTITIONS}, VALUE_FORMAT='JSON');
CREATE TABLE visitors AS
  SELECT id, COUNT(*) AS n, SUM(amount) AS total FROM visits GROUP BY id EMIT CHANGES;
"""
PATIENCE_S = 60.0
_START = "import sys; from millstream_cli.main import main; sys.exit(main(sys.argv[1:]))"
_PAUSE_S = 0.1
_TAKEN = re.compile(r'^millstream_query_records_in_total\{query="C[ST]AS_[^"]*"\} (\S+)$', re.M)
_TICKS = os.sysconf("SC_CLK_TCK")


def load(folder: Path, keys: int) -> None:
    """Make the file of a server: one visit of each visitor `user_<i>`, with amount `i % 1000`."""
    import numpy as np

    import millstream
    from millstream_server.bootstrap.startup import STATE_FILE

    properties = {"auto.offset.reset": "earliest"}
    with millstream.connect(str(folder / STATE_FILE), properties=properties) as database:
        database.execute(STATEMENTS)
        for begin in range(0, keys, BATCH):
            append(database, np.arange(begin, min(begin + BATCH, keys)))
        database.wait()


def append(database: Any, ids: Any) -> None:
    """One visit of each of these visitors."""
    import numpy as np
    import pyarrow as pa

    from millstream.formats.partition import partition_of
    from millstream.log.log import Appended
    from tests.bench import nexmark

    keys = nexmark._joined("user_", ids).cast(pa.binary())
    values = nexmark._joined('{"AMOUNT":', ids % 1000, "}")
    rows = nexmark.raw(values, keys, np.full(len(ids), nexmark.START_MS))
    chosen = partition_of(keys, PARTITIONS)
    parts = [(part, rows.filter(pa.array(chosen == part))) for part in range(PARTITIONS)]
    database.engine.writer.append(
        [Appended("visits", part, piece, piece.num_rows, piece.nbytes) for part, piece in parts]
    )


@dataclass(frozen=True, slots=True)
class Serving:
    """A server process that answers."""

    pid: int
    host: str

    def cpu_s(self) -> float:
        """The CPU it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def rss_mb(self) -> float:
        """The memory it has now."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0

    def connection(self) -> http.client.HTTPConnection:
        """A client of it."""
        return http.client.HTTPConnection(self.host, timeout=PATIENCE_S)

    def taken(self) -> float:
        """How many records the persistent queries have taken so far."""
        client = self.connection()
        client.request("GET", "/metrics")
        text = client.getresponse().read().decode()
        client.close()
        return sum(float(count) for count in _TAKEN.findall(text))

    def row(self, key: str) -> list[Any]:
        """What the table has under a key."""
        sql = f"SELECT * FROM visitors WHERE id = '{key}';"
        _, *rows = self.asked("/query-stream", {"sql": sql}).splitlines()
        return json.loads(rows[0]) if rows else []

    def asked(self, path: str, body: dict[str, Any]) -> str:
        """The whole answer."""
        client = self.connection()
        client.request("POST", path, json.dumps(body))
        answer = client.getresponse()
        text = answer.read().decode()
        client.close()
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}: {text}")
        return text


@contextmanager
def serving(folder: Path) -> Iterator[Serving]:
    """`millstream server start` over a folder, on a free port."""
    command = [sys.executable, "-c", _START, "server", "start", "--state-dir", str(folder)]
    with started([*command, "--listener", "http://127.0.0.1:0"], folder / "server.log") as server:
        yield server


@contextmanager
def started(command: Sequence[str], told: Path) -> Iterator[Serving]:
    """A process that prints its address on stderr, which goes to the file `told`."""
    with told.open("w") as output:
        process = subprocess.Popen(command, stderr=output)
    try:
        while (found := re.search(r"http://([0-9.]+:[0-9]+)", told.read_text())) is None:
            if process.poll() is not None:
                raise RuntimeError(f"The server did not start: {told.read_text()}")
            time.sleep(_PAUSE_S)
        yield Serving(process.pid, found[1])
    finally:
        process.terminate()
        process.wait()
