"""What JSON costs with compiled code and without: CPU seconds for a million records.

python -m tests.bench.json_text [--records 1000000]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from statistics import median
from unittest.mock import patch

import duckdb
import pyarrow as pa

from millstream.formats import json_cut, json_text
from millstream.formats.json_shape import learn_shapes
from millstream.formats.library import compiled_formats
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
_WANTED = {
    "a text and a whole number": (0, 2),
    "and a text, a double, a boolean": (0, 1, 2, 3, 4),
}


def _records(count: int) -> pa.Array:
    return pa.array(
        [
            f'{{"user_id":"user{n % 2500}","page":"/page/{n % 1000}",'
            f'"ts":{1_700_000_000_000 + 2 * n},"amount":{n % 100_000 / 100},'
            f'"ok":{"true" if n % 2 else "false"},"note":"abcdefghi"}}'
            for n in range(count)
        ]
    )


def _reading(text: pa.Array, wanted: tuple[int, ...]) -> Callable[[], object]:
    shapes = learn_shapes([text[0].as_py().encode()], Layout(_COLUMNS, wanted))
    assert shapes is not None
    return lambda: json_cut.cut_columns(text, shapes)


def _writing(text: pa.Array, wanted: tuple[int, ...]) -> Callable[[], object]:
    layout = Layout(_COLUMNS, tuple(range(len(_COLUMNS))))
    shapes = learn_shapes([text[0].as_py().encode()], layout)
    found = None if shapes is None else json_cut.cut_columns(text, shapes)
    assert found is not None
    columns = [_COLUMNS[index] for index in wanted]
    arrays = [found[column.name] for column in columns]
    con = duckdb.connect(config={"threads": 1})
    return lambda: json_text.write_many(con, arrays, Layout(tuple(columns)))


def _took(work: Callable[[], object], times: int) -> float:
    began = time.thread_time()
    for _ in range(times):
        assert work() is not None
    return time.thread_time() - began


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="json_text", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    times = max(1, parser.parse_args().records // _BATCH)
    text = _records(_BATCH)
    if compiled_formats() is None:
        print("there is no compiled code here")
        return 1
    scale = 1_000_000 / (times * _BATCH)
    for way, made in (("read", _reading), ("written", _writing)):
        for title, wanted in _WANTED.items():
            work = made(text, wanted)
            compiled = median(_took(work, times) for _ in range(_ROUNDS))
            with (
                patch.object(json_cut, "compiled_formats", return_value=None),
                patch.object(json_text, "compiled_formats", return_value=None),
            ):
                other = median(_took(work, times) for _ in range(_ROUNDS))
            print(
                f"{way:8} {title:32} compiled {compiled * scale:.3f},"
                f" without {other * scale:.3f} CPU-s/M ({compiled / other:.2f})"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
