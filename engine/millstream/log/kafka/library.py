"""The compiled library (binding.c, intake.c with batches.c, batch_producer.c) as ctypes sees it."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pyarrow as pa

from millstream.log.kafka.client import Settings

LIBRARY = Path(__file__).with_name("libmillstream_kafka.so")
_PLUGINS = "plugin.library.paths"


class Run(ctypes.Structure):
    """`struct run` of intake.c."""

    _fields_ = (
        ("batch", ctypes.c_int64 * 10),
        ("offset", ctypes.c_int64),
        ("partition", ctypes.c_int32),
        ("error", ctypes.c_int32),
        ("topic", ctypes.c_char * 256),
        ("text", ctypes.c_char * 512),
    )


class Column(ctypes.Structure):
    """`struct column` of batch_producer.c."""

    _fields_ = (
        ("valid", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("valid_size", ctypes.c_int64),
        ("ends_size", ctypes.c_int64),
        ("data_size", ctypes.c_int64),
        ("first", ctypes.c_int64),
        ("rows", ctypes.c_int64),
    )

    @classmethod
    def of(cls, array: pa.Array) -> Column:
        """The buffers of an array of integers, of binary or of lists; it must outlive this."""
        valid, second, *more = array.buffers()
        integers = pa.types.is_integer(array.type)
        ends = None if integers else second
        data = second if integers else more[0] if more else None
        found = [(0, 0) if at is None else (at.address, at.size) for at in (valid, ends, data)]
        return cls(*(at for at, _ in found), *(size for _, size in found), array.offset, len(array))


class Rows(ctypes.Structure):
    """`struct rows` of batch_producer.c."""

    _fields_ = tuple(
        (name, Column) for name in ("timestamp", "key", "value", "headers", "name", "content")
    )

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Rows:
        """A batch of RAW_SCHEMA, which must outlive this."""
        columns = {name: Column.of(batch[name]) for name in ("timestamp", "key", "value")}
        lists = batch["headers"]
        if lists.null_count < len(lists):
            entries = lists.values
            columns |= {"headers": Column.of(lists)}
            columns |= {"name": Column.of(entries.field(0)), "content": Column.of(entries.field(1))}
        return cls(**columns)


class Delivered(ctypes.Structure):
    """`struct place` of batch_producer.c."""

    _fields_ = (
        ("topic", ctypes.c_void_p),
        ("taken", ctypes.c_int64),
        ("delivered", ctypes.c_int64),
        ("end", ctypes.c_int64),
        ("partition", ctypes.c_int32),
        ("error", ctypes.c_int32),
    )


def with_plugin(config: Settings) -> Settings:
    """The same configuration, for a client that the library works with."""
    plugins = ";".join(str(path) for path in (config.get(_PLUGINS), LIBRARY) if path)
    return {**config, _PLUGINS: plugins}


def declared(path: Path) -> ctypes.CDLL:
    """The library, not bound to librdkafka yet; OSError when it cannot be loaded."""
    library = ctypes.CDLL(str(path))
    handle = ctypes.c_void_p
    library.ms_bind.argtypes = [ctypes.c_char_p]
    library.ms_open.argtypes, library.ms_open.restype = [ctypes.c_int], handle
    library.ms_name.argtypes, library.ms_name.restype = [handle], ctypes.c_char_p
    library.ms_expect.argtypes = [handle, ctypes.c_char_p, ctypes.c_int]
    library.ms_take.argtypes = [handle, ctypes.c_int]
    library.ms_next.argtypes = [handle, ctypes.POINTER(Run)]
    library.ms_close.argtypes, library.ms_close.restype = [handle], None
    library.ms_forget.restype = None
    library.ms_batch_producer.restype = handle
    library.ms_batch_producer_name.argtypes = [handle]
    library.ms_batch_producer_name.restype = ctypes.c_char_p
    library.ms_clear.argtypes, library.ms_clear.restype = [handle], None
    library.ms_place.argtypes = [handle, ctypes.c_char_p, ctypes.c_int]
    library.ms_delivered.argtypes = [handle, ctypes.c_int, ctypes.POINTER(Delivered)]
    library.ms_append.argtypes = [
        *(handle, ctypes.c_int, ctypes.POINTER(Rows), ctypes.c_int64),
        ctypes.POINTER(ctypes.c_int),
    ]
    library.ms_append.restype = ctypes.c_int64
    return library
