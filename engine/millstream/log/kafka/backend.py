"""Selects how Kafka is read and written: by the compiled library where it is built and compatible,
else by plain Python."""

from __future__ import annotations

import ctypes
import logging
import os
import re
from functools import cache
from pathlib import Path

from confluent_kafka import KafkaException, cimpl

from millstream.log.kafka.batch_producer import BatchProducer, MessageProducer
from millstream.log.kafka.client import Settings
from millstream.log.kafka.compiled import BatchIntake, CompiledProducer
from millstream.log.kafka.intake import Intake, MessageIntake
from millstream.log.kafka.library import LIBRARY, Delivered, Rows, Run, declared
from millstream.model.errors import UnavailableError

SWITCH = "MILLSTREAM_KAFKA_CLIENT"
"""The environment variable which, if it is `plain`, switches the library off."""
_VERSIONS = range(0x02_10_00_00, 0x03_00_00_00)
"""Versions of librdkafka: from the oldest tested one up to the next change of its ABI."""
_PROBE: Settings = {"client.id": "probe", "log_level": 2}


def open_intake(config: Settings) -> Intake:
    """The fastest available consumer. Raises KafkaException for a bad configuration."""
    library = compiled_client()
    return MessageIntake(config) if library is None else BatchIntake(config, library)


def open_batch_producer(config: Settings) -> BatchProducer:
    """The fastest available producer. Raises KafkaException for a bad configuration."""
    library = compiled_client()
    return MessageProducer(config) if library is None else CompiledProducer(config, library)


def compiled_client() -> ctypes.CDLL | None:
    """The library, unless it was not built, is switched off or incompatible with this client."""
    return None if os.environ.get(SWITCH) == "plain" else _checked_library()


@cache
def _checked_library() -> ctypes.CDLL | None:
    if not LIBRARY.exists():
        return None
    try:
        return load(LIBRARY)
    except (OSError, AttributeError, UnavailableError, KafkaException) as error:
        logging.getLogger(__name__).warning("Kafka is used by plain Python: %s", error)
        return None


def load(path: Path) -> ctypes.CDLL:
    """The library at `path`, after its self-check.

    Raises OSError when it cannot be loaded, UnavailableError or KafkaException when it is
    incompatible with this module or the client.
    """
    library = declared(path)
    sizes = library.ms_run_size(), library.ms_rows_size(), library.ms_delivered_size()
    if sizes != tuple(map(ctypes.sizeof, (Run, Rows, Delivered))):
        raise UnavailableError(f"'{path}' was built from another version of its source")
    if library.ms_bind(cimpl.__file__.encode()):
        raise UnavailableError("the client's librdkafka does not show what is needed of it")
    if library.ms_version() not in _VERSIONS:
        raise UnavailableError(f"librdkafka {library.ms_version():#010x} was never tried")
    intake = BatchIntake({"group.id": "probe", **_PROBE}, library)
    batch_producer = CompiledProducer(_PROBE, library)
    try:
        for name, kind in ((intake.name, "consumer"), (batch_producer.name, "producer")):
            if not re.fullmatch(rf"probe#{kind}-\d+", name):
                raise UnavailableError(f"the plugin was told of the client '{name}'")
    finally:
        intake.close()
        batch_producer.close()
    return library
