"""The intake by `batches.c`: the client's messages go into Arrow's buffers in C."""

from __future__ import annotations

import ctypes
import logging
import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition, cimpl

from millstream.log.kafka.client import Settings
from millstream.log.kafka.intake import Intake, MessageIntake, News, Piece, pieces_of
from millstream.model.batch import RAW_SCHEMA
from millstream.model.errors import UnavailableError

SWITCH = "MILLSTREAM_KAFKA_READER"
"""The variable of the environment which, if it is `plain`, makes every intake a plain one."""
LIBRARY = Path(__file__).with_name("libmillstream_kafka.so")
_AT_ONCE = 10_000
_VERSIONS = range(0x02_10_00_00, 0x03_00_00_00)
"""Of librdkafka: from the oldest that was tried up to the next change of its ABI."""
_PLUGINS = "plugin.library.paths"


class _Run(ctypes.Structure):
    """`struct run` of batches.c."""

    _fields_ = (
        ("batch", ctypes.c_int64 * 10),
        ("offset", ctypes.c_int64),
        ("partition", ctypes.c_int32),
        ("error", ctypes.c_int32),
        ("topic", ctypes.c_char * 256),
        ("text", ctypes.c_char * 512),
    )


class BatchIntake:
    """By the library, from a queue that gets all that comes of the assigned partitions. Other
    news waits at the consumer, which calls its callbacks when it is polled."""

    def __init__(self, config: Settings, library: ctypes.CDLL) -> None:
        plugins = ";".join(str(path) for path in (config.get(_PLUGINS), LIBRARY) if path)
        self._library = library
        library.ms_forget()
        self.consumer = Consumer({**config, _PLUGINS: plugins})
        self._handle: int | None = library.ms_open(_AT_ONCE)
        if self._handle is None:
            self.consumer.close()
            raise UnavailableError("Could not show the client to the compiled reader")
        self._run = _Run()

    @property
    def name(self) -> str:
        """What the client that is read calls itself."""
        return str(self._library.ms_name(self._opened()).decode())

    def assign(self, places: Sequence[TopicPartition]) -> None:
        """See `Intake`."""
        for place in places:
            if self._library.ms_expect(self._opened(), place.topic.encode(), place.partition):
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        self.consumer.incremental_assign(list(places))

    def take(self, seconds: float) -> Sequence[Piece]:
        """See `Intake`."""
        pieces: list[Piece] = []
        while (message := self.consumer.poll(0)) is not None:
            pieces += pieces_of([message])
        self._library.ms_take(self._opened(), 0 if pieces else int(seconds * 1000))
        run, following = self._run, ctypes.byref(self._run)
        while (found := self._library.ms_next(self._opened(), following)) > 0:
            place = run.topic.decode(), run.partition
            if run.error:
                error = KafkaError(run.error, run.text.decode(errors="replace"))
                pieces.append((place, News(error, run.offset)))
            else:
                batch = pa.RecordBatch._import_from_c(ctypes.addressof(run.batch), RAW_SCHEMA)
                pieces.append((place, pa.Table.from_batches([batch])))
        if found < 0:
            raise MemoryError("Could not read from Kafka: no memory for a batch")
        return pieces

    def close(self) -> None:
        """See `Intake`."""
        if self._handle is not None:
            self._library.ms_close(self._handle)
            self._handle = None
        self.consumer.close()

    def _opened(self) -> int:
        if self._handle is None:
            raise RuntimeError("Consumer closed")
        return self._handle


def open_intake(config: Settings) -> Intake:
    """The fastest that there is here. Raises KafkaException for a bad configuration."""
    library = compiled_reader()
    return MessageIntake(config) if library is None else BatchIntake(config, library)


def compiled_reader() -> ctypes.CDLL | None:
    """The library, unless it was not built, is switched off or does not fit this client."""
    return None if os.environ.get(SWITCH) == "plain" else _checked_library()


@cache
def _checked_library() -> ctypes.CDLL | None:
    if not LIBRARY.exists():
        return None
    try:
        return load(LIBRARY)
    except (OSError, UnavailableError, KafkaException) as error:
        logging.getLogger(__name__).warning("Kafka is read by plain Python: %s", error)
        return None


def load(path: Path) -> ctypes.CDLL:
    """The library at `path`, after its self-check.

    Raises OSError when it cannot be loaded, UnavailableError or KafkaException when it does not
    fit this module or the client.
    """
    library = _declared(ctypes.CDLL(str(path)))
    if library.ms_run_size() != ctypes.sizeof(_Run):
        raise UnavailableError(f"'{path}' was built from another version of its source")
    if library.ms_bind(cimpl.__file__.encode()):
        raise UnavailableError("the client's librdkafka does not show what is needed of it")
    if library.ms_version() not in _VERSIONS:
        raise UnavailableError(f"librdkafka {library.ms_version():#010x} was never tried")
    probe = BatchIntake({"group.id": "probe", "client.id": "probe", "log_level": 2}, library)
    try:
        if not re.fullmatch(r"probe#consumer-\d+", probe.name):
            raise UnavailableError(f"the plugin was told of the client '{probe.name}'")
    finally:
        probe.close()
    return library


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    handle = ctypes.c_void_p
    library.ms_bind.argtypes = [ctypes.c_char_p]
    library.ms_open.argtypes, library.ms_open.restype = [ctypes.c_int], handle
    library.ms_name.argtypes, library.ms_name.restype = [handle], ctypes.c_char_p
    library.ms_expect.argtypes = [handle, ctypes.c_char_p, ctypes.c_int]
    library.ms_take.argtypes = [handle, ctypes.c_int]
    library.ms_next.argtypes = [handle, ctypes.POINTER(_Run)]
    library.ms_close.argtypes, library.ms_close.restype = [handle], None
    library.ms_forget.restype = None
    return library
