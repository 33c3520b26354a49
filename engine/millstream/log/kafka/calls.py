"""Calls a producer under deadlines of our own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from confluent_kafka import KafkaException

from millstream.log.kafka.client import REQUEST_SECONDS
from millstream.model.errors import UnavailableError

HANGING_SECONDS = 2 * REQUEST_SECONDS
"""After this long, a call with a timeout of half of it is considered hung."""


def again(call: Callable[[], object], seconds: float) -> None:
    """Call until it succeeds, fails for good, or `seconds` have passed. Then call once more: if
    this process itself was stopped so long, only a call made after that detects a newer writer.
    Raises UnavailableError when the client hangs."""
    repeated(lambda: within(call, HANGING_SECONDS), seconds)


def repeated(call: Callable[[], object], seconds: float) -> None:
    """The same for a call that cannot hang, or is made in a thread of its own already."""
    deadline = time.monotonic() + seconds
    last = False
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if last or not error.args[0].retriable():
                raise
        last = time.monotonic() > deadline


def within(call: Callable[[], object], seconds: float) -> None:
    """Call in a thread and abandon it (UnavailableError) when it hangs: in a process that was
    stopped for long, `send_offsets_to_transaction` was observed to ignore its timeout (2.16)."""
    done: Future[object] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="millstream-client-call", daemon=True).start()
    try:
        done.result(seconds)
    except TimeoutError as error:
        raise UnavailableError(
            f"The Kafka client did not come back within {seconds:g} seconds",
            hint="What it was doing is tried again with a new client.",
            code="E-CLIENT-HANGS",
        ) from error
