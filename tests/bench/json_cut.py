"""What cutting JSON costs with compiled code and with numpy: CPU seconds for a million records.

python -m tests.bench.json_cut [--records 1000000]
"""

from __future__ import annotations

import argparse
import sys
import time
from statistics import median
from unittest.mock import patch

import pyarrow as pa

from millstream.formats import json_cut
from millstream.formats.json_compiled import compiled_scan
from millstream.formats.json_shape import learn_shapes
from millstream.formats.payload import Layout
from millstream.model.schema import Column
from millstream.model.types import BIGINT, BOOLEAN, DOUBLE, STRING

_BATCH = 200_000
_ROUNDS = 5
_COLUMNS = (
    Column("USER_ID", STRING),
    Column("PAGE", STRING),
    Column("TS", BIGINT),
    Column("AMOUNT", DOUBLE),
    Column("OK", BOOLEAN),
)
_WANTED = {"two of five": (0, 2), "all five": (0, 1, 2, 3, 4)}


def _records(count: int) -> pa.Array:
    return pa.array(
        [
            f'{{"user_id":"user{n % 2500}","page":"/page/{n % 1000}",'
            f'"ts":{1_700_000_000_000 + 2 * n},"amount":{n % 100_000 / 100},'
            f'"ok":{"true" if n % 2 else "false"},"note":"abcdefghi"}}'
            for n in range(count)
        ]
    )


def _took(text: pa.Array, wanted: tuple[int, ...], times: int) -> float:
    shapes = learn_shapes([text[0].as_py().encode()], Layout(_COLUMNS, wanted))
    assert shapes is not None
    began = time.thread_time()
    for _ in range(times):
        assert json_cut.cut_columns(text, shapes) is not None
    return time.thread_time() - began


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="json_cut", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    times = max(1, parser.parse_args().records // _BATCH)
    text = _records(_BATCH)
    if compiled_scan() is None:
        print("there is no compiled code here")
        return 1
    for title, wanted in _WANTED.items():
        compiled = median(_took(text, wanted, times) for _ in range(_ROUNDS))
        with patch.object(json_cut, "compiled_scan", return_value=None):
            by_numpy = median(_took(text, wanted, times) for _ in range(_ROUNDS))
        scale = 1_000_000 / (times * _BATCH)
        print(
            f"{title:12} compiled {compiled * scale:.3f}, numpy {by_numpy * scale:.3f} CPU-s/M"
            f" ({compiled / by_numpy:.2f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
