"""The compiled library of formats, the files of C beside this one, through ctypes, if it is there
(ADRs 20 and 62)."""

from __future__ import annotations

import ctypes
import logging
import os
from functools import cache
from pathlib import Path

LIBRARY = Path(__file__).with_name("libmillstream_formats.so")
SWITCH = "MILLSTREAM_FORMATS"
"""The environment variable which, if it is `plain`, switches the library off."""


class Field(ctypes.Structure):
    """`struct field` of scan.c."""

    _fields_ = (
        ("joint", ctypes.c_char_p),
        ("length", ctypes.c_int64),
        ("quoted", ctypes.c_int32),
        ("kind", ctypes.c_int32),
        ("begin", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
        ("number", ctypes.c_void_p),
        ("state", ctypes.c_void_p),
        ("low", ctypes.c_int64),
        ("high", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
        ("odd", ctypes.c_int64),
        ("none", ctypes.c_int64),
    )


class Column(ctypes.Structure):
    """`struct column` of join.c."""

    _fields_ = (
        ("lead", ctypes.c_char_p),
        ("lead_length", ctypes.c_int64),
        ("kind", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("valid", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("data_size", ctypes.c_int64),
    )


class Source(ctypes.Structure):
    """`struct source` of payloads.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("kind", "next", "size", "digits")),
        ("valid", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("before", ctypes.c_void_p),
        ("before_size", ctypes.c_int64),
        ("instead", ctypes.c_void_p),
        ("instead_size", ctypes.c_int64),
    )


@cache
def compiled_formats() -> ctypes.CDLL | None:
    """The library, if a compatible one is available."""
    if os.environ.get(SWITCH) == "plain" or not LIBRARY.exists():
        return None
    try:
        return declared(LIBRARY)
    except (OSError, AttributeError, ValueError) as error:
        logging.getLogger("millstream").warning(
            "Formats are read and written without compiled code: %s (%s=plain silences this)",
            error,
            SWITCH,
        )
        return None


def declared(path: Path) -> ctypes.CDLL:
    """Load a library; raises OSError, AttributeError or ValueError when it is incompatible."""
    library = ctypes.CDLL(str(path))
    at, count = ctypes.c_void_p, ctypes.c_int64
    library.ms_field_size.argtypes, library.ms_field_size.restype = [], count
    library.ms_column_size.argtypes, library.ms_column_size.restype = [], count
    library.ms_scan.restype = count
    library.ms_scan.argtypes = [
        *(at, count, at, count),
        *(ctypes.POINTER(Field), count, ctypes.c_char_p, count),
    ]
    library.ms_gather.restype = None
    library.ms_gather.argtypes = [at, at, at, count, at, at]
    library.ms_joined_size.restype = count
    library.ms_joined_size.argtypes = [ctypes.POINTER(Column), count, count]
    library.ms_join.restype = None
    library.ms_join.argtypes = [ctypes.POINTER(Column), count, count, at, at]
    library.ms_proto_read.restype = at
    library.ms_proto_read.argtypes = [
        *(at, at, count, count, ctypes.c_char_p, count),
        *(at, count, at, count, at),
    ]
    library.ms_avro_read.restype = at
    library.ms_avro_read.argtypes = [at, at, count, count, at, count, at]
    library.ms_column.restype = None
    library.ms_column.argtypes = [at, count, at, at]
    library.ms_columns_free.restype = None
    library.ms_columns_free.argtypes = [at]
    for write in (library.ms_avro_write, library.ms_proto_write):
        write.restype = at
        write.argtypes = [
            *(ctypes.POINTER(Source), count, count),
            *(ctypes.c_char_p, count, at, at),
        ]
    library.ms_payloads_free.restype = None
    library.ms_payloads_free.argtypes = [at]
    library.ms_source_size.argtypes, library.ms_source_size.restype = [], count
    sizes = (library.ms_field_size(), library.ms_column_size(), library.ms_source_size())
    if sizes != tuple(map(ctypes.sizeof, (Field, Column, Source))):
        raise ValueError(f"{path.name} is of another version")
    return library
