"""What it costs to insert the bids of the workloads: `python -m tests.bench.inserting [ROWS]`.

The rows are given to `Database.insert` as an Arrow table, as a pandas and as a polars DataFrame, as
tuples and as dicts, with the topic's four partitions in a file. The figures are rows per second of
CPU time, all threads of the process counted together, and of elapsed time; the best of three.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pj

import millstream
from tests.bench import nexmark
from tests.bench.workloads import BID

ROWS = 1_000_000
OF_PYTHON = 10
"""Rows of Python values are so many times fewer."""
ROUNDS = 3


def bids(rows: int) -> pa.Table:
    """The bids as a table, with ROWTIME."""
    values, times = nexmark.bids(rows * 50 // 46 + 50)
    lines = b"\n".join(value.encode() for value in values.slice(0, rows).to_pylist())
    table = pj.read_json(pa.py_buffer(lines), pj.ReadOptions(block_size=1 << 24))
    return table.append_column("ROWTIME", pa.array(times[:rows], pa.int64())).combine_chunks()


def measure(data: Any, rows: int) -> tuple[float, float]:
    """The rows per second of CPU time and of elapsed time."""
    found = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            with millstream.connect(str(Path(folder) / "bids.db")) as database:
                database.execute(BID)
                cpu, elapsed = time.process_time(), time.perf_counter()
                assert database.insert("bid", data) == rows
                cpu, elapsed = time.process_time() - cpu, time.perf_counter() - elapsed
            found.append((rows / cpu, rows / elapsed))
    return max(found)


def main(rows: int) -> None:
    """Measure each kind of data."""
    table = bids(rows)
    small = table.slice(0, rows // OF_PYTHON)
    dicts = small.to_pylist()
    kinds = {
        "pyarrow.Table": table,
        "polars.DataFrame": __import__("polars").from_arrow(table),
        "pandas.DataFrame": table.to_pandas(),
        "tuples": [(*list(row.values())[:7],) for row in dicts],
        "dicts": dicts,
    }
    for name, data in kinds.items():
        cpu, elapsed = measure(data, len(data))
        print(
            f"{name:18} {len(data):8} rows  {cpu / 1e6:5.2f} M rows/CPU-s"
            f"  {elapsed / 1e6:5.2f} M rows/s"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
