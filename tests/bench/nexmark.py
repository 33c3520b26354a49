"""Nexmark events as JSON, deterministic: of each 50, one person, three auctions, 46 bids.

Hot keys as in Nexmark's generator (half of the bids on the hot auction, three quarters by the hot
bidder); 100 us of event time per event; record timestamp = dateTime.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.model.batch import HEADER_TYPE, RAW_SCHEMA

START_MS = 1_795_219_200_000
FIRST_ID = 1000
Column = pa.Array | pa.ChunkedArray


def _joined(*parts: Any) -> pa.Array:
    """Text pieces put together row by row; plain strings are repeated."""
    columns = [
        pa.scalar(part)
        if isinstance(part, str)
        else (part if isinstance(part, Column) else pa.array(part)).cast(pa.string())
        for part in parts
    ]
    return pc.binary_join_element_wise(*columns, "")


def _letters(rng: np.random.Generator, rows: int, width: int) -> pa.Array:
    letters = rng.integers(97, 123, size=(rows, width), dtype=np.uint8)
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def _price(rng: np.random.Generator, rows: int) -> np.ndarray[Any, Any]:
    return np.round(10 ** (rng.random(rows) * 6) * 100).astype(np.int64)


def bids(events: int, seed: int = 1) -> tuple[pa.Array, np.ndarray[Any, Any]]:
    """JSON values and timestamps of the bids among the first `events` events."""
    rng = np.random.default_rng(seed)
    event = np.arange(events, dtype=np.int64)
    event = event[event % 50 >= 4]
    group, rows, time = event // 50, len(event), START_MS + event // 10
    newest = group * 3 + 2
    auction = FIRST_ID + np.where(
        rng.random(rows) < 0.5,
        newest // 100 * 100,
        np.maximum(0, newest - rng.integers(0, 100, rows)),
    )
    bidder = FIRST_ID + np.where(
        rng.random(rows) < 0.75,
        group // 100 * 100 + 1,
        np.maximum(0, group - rng.integers(0, 1000, rows)),
    )
    hot = pa.array(["Google", "Facebook", "Baidu", "Apple"]).take(
        pa.array(rng.integers(0, 4, rows))
    )
    cold = _joined("channel-", rng.integers(0, 10_000, rows))
    channel = pc.if_else(pa.array(rng.random(rows) < 0.5), hot, cold)
    values = _joined(
        '{"auction":', auction, ',"bidder":', bidder, ',"price":', _price(rng, rows),
        ',"channel":"', channel, '","url":"https://www.nexmark.com/', _letters(rng, rows, 5),
        '/item.htm?query=1","dateTime":', time, ',"extra":"', _letters(rng, rows, 20), '"}',
    )  # fmt: skip
    return values, time


def auctions(
    events: int, seed: int = 1
) -> tuple[pa.Array, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """JSON values, ids and timestamps of the auctions."""
    rng = np.random.default_rng(seed + 1)
    event = np.arange(events, dtype=np.int64)
    place = event % 50
    event = event[(place >= 1) & (place <= 3)]
    group, rows, time = event // 50, len(event), START_MS + event // 10
    ids = FIRST_ID + group * 3 + event % 50 - 1
    seller = FIRST_ID + np.where(
        rng.random(rows) < 0.75,
        group // 100 * 100,
        np.maximum(0, group - rng.integers(0, 1000, rows)),
    )
    price = _price(rng, rows)
    values = _joined(
        '{"itemName":"', _letters(rng, rows, 12), '","description":"', _letters(rng, rows, 30),
        '","initialBid":', price, ',"reserve":', price + _price(rng, rows), ',"dateTime":', time,
        ',"expires":', time + rng.integers(1000, 20_000, rows), ',"seller":', seller,
        ',"category":', 10 + rng.integers(0, 5, rows), ',"extra":"', _letters(rng, rows, 20), '"}',
    )  # fmt: skip
    return values, ids, time


def persons(
    events: int, seed: int = 1
) -> tuple[pa.Array, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """JSON values, ids and timestamps of the persons."""
    rng = np.random.default_rng(seed + 2)
    event = np.arange(0, events, 50, dtype=np.int64)
    rows, time = len(event), START_MS + event // 10
    card = rng.integers(10**15, 10**16, rows)
    values = _joined(
        '{"name":"', _letters(rng, rows, 12), '","emailAddress":"', _letters(rng, rows, 7), '@',
        _letters(rng, rows, 5), '.com","creditCard":"', card, '","city":"', _letters(rng, rows, 8),
        '","state":"OR","dateTime":', time, ',"extra":"', _letters(rng, rows, 20), '"}',
    )  # fmt: skip
    return values, FIRST_ID + event // 50, time


def bigint_keys(ids: np.ndarray[Any, Any]) -> pa.Array:
    """Integers as the KAFKA format writes them: eight bytes, big-endian."""
    fixed = pa.Array.from_buffers(
        pa.binary(8), len(ids), [None, pa.py_buffer(ids.astype(">i8").tobytes())]
    )
    return fixed.cast(pa.binary())


def raw(values: pa.Array, keys: pa.Array | None, time: np.ndarray[Any, Any]) -> pa.Table:
    """Columns of a raw batch."""
    rows = len(values)
    return pa.table(
        {
            "offset": pa.array(np.arange(rows), pa.int64()),
            "timestamp": pa.array(time, pa.int64()),
            "key": pa.nulls(rows, pa.binary()) if keys is None else keys,
            "value": values.cast(pa.binary()),
            "headers": pa.nulls(rows, HEADER_TYPE),
        },
        schema=RAW_SCHEMA,
    )
