"""Peak resident memory: of an idle engine, and (`--memory`) of a table with millions of keys.

The table is a CREATE TABLE AS over a stream in a database file: a record for each of the keys,
appended in batches, and then updates of keys chosen at random. Each figure is of a process of its
own, which also does the appending.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

KEYS = 5_000_000
UPDATES = 1_000_000
BATCH = 100_000
PARTITIONS = 4
STATEMENTS = """
CREATE STREAM s (id BIGINT KEY, amount BIGINT)
  WITH (KAFKA_TOPIC='s', PARTITIONS=4, KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT id, COUNT(*) AS n, SUM(amount) AS total FROM s GROUP BY id EMIT CHANGES;
"""


def idle(path: Path) -> dict[str, Any]:
    """An engine that holds one stream and has answered one statement."""
    import millstream

    with millstream.connect(str(path)) as database:
        database.execute("CREATE STREAM s (id BIGINT KEY) WITH (KAFKA_TOPIC='s', PARTITIONS=4,"
                         " VALUE_FORMAT='JSON');")  # fmt: skip
        database.execute("INSERT INTO s (id) VALUES (1);")
        database.wait()
        return {"peak_mb": _peak()}


def table(path: Path, keys: int, updates: int) -> dict[str, Any]:
    """A table of `keys` keys, updated while it is large."""
    import numpy as np
    import pyarrow as pa

    import millstream
    from millstream.formats.partition import partition_of
    from millstream.log.log import Appended
    from tests.bench import nexmark

    chosen = np.random.default_rng(1).integers(0, keys, updates)
    ids = np.concatenate([np.arange(keys), chosen])
    started = time.perf_counter()
    properties = {"auto.offset.reset": "earliest"}
    with millstream.connect(str(path), properties=properties) as database:
        database.execute(STATEMENTS)
        loaded = 0
        for begin in range(0, len(ids), BATCH):
            part = ids[begin : begin + BATCH]
            values = nexmark._joined('{"AMOUNT":', part % 1000, "}")
            encoded = nexmark.bigint_keys(part)
            raw = nexmark.raw(values, encoded, np.full(len(part), nexmark.START_MS + begin))
            destination = partition_of(encoded, PARTITIONS)
            appends = []
            for partition in range(PARTITIONS):
                piece = raw.filter(pa.array(destination == partition))
                appends.append(Appended("s", partition, piece, piece.num_rows, piece.nbytes))
            database.engine.writer.append(appends)
            database.wait()
            if begin < keys:
                loaded = _peak()
        row = database.execute(f"SELECT n FROM t WHERE id = {keys - 1};").fetchone()  # type: ignore[union-attr]
        assert row is not None
        assert row[0] == 1 + int(np.count_nonzero(chosen == keys - 1)), row
        result = {"keys": keys, "loaded_mb": loaded, "peak_mb": _peak()}
    sizes = sum(file.stat().st_size for file in path.parent.iterdir())
    return {**result, "seconds": time.perf_counter() - started, "files_mb": sizes >> 20}


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def _child(*arguments: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="millstream-memory-") as folder:
        command = [sys.executable, "-m", "tests.bench.memory", *arguments, f"{folder}/memory.db"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: list[str]) -> int:
    """Run the command."""
    if arguments[:1] == ["idle"]:
        print(json.dumps(idle(Path(arguments[1]))))
        return 0
    if arguments[:1] == ["table"]:
        print(json.dumps(table(Path(arguments[3]), int(arguments[1]), int(arguments[2]))))
        return 0
    parser = argparse.ArgumentParser(prog="memory", description=__doc__)
    parser.add_argument("--memory", action="store_true", help="also the table (minutes)")
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--updates", type=int, default=UPDATES)
    options = parser.parse_args(arguments)
    print(f"idle engine:  peak {_child('idle')['peak_mb']} MB")
    if options.memory:
        found = _child("table", str(options.keys), str(options.updates))
        print(
            f"table of {found['keys']} keys:  peak {found['loaded_mb']} MB while loading,"
            f" {found['peak_mb']} MB with {options.updates} updates;"
            f" {found['seconds']:.0f} s, files {found['files_mb']} MB"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
