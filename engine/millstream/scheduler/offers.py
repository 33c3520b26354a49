"""Calls that the thread of a query offers to others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Offer:
    """A call that one thread makes, and that another one waits for. The thread that takes it calls
    `run` once."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._ended = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Make the call. Its error is raised by `result`, not here."""
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()

    def wait(self) -> None:
        """Wait until the call has ended."""
        self._ended.wait()

    @property
    def result(self) -> Any:
        """The result of a call that has ended; raises its error."""
        if self._error is not None:
            raise self._error
        return self._result


class StartedOffer:
    """Implements `runtime.ports.Started`. Waiting for a call that no thread has taken makes it."""

    def __init__(self, offer: Offer, withdrawn: Callable[[Offer], bool]) -> None:
        """`withdrawn`: takes an offer back; returns False if another thread has it."""
        self._offer = offer
        self._withdrawn = withdrawn

    def wait(self) -> None:
        """See `Started`."""
        if self._withdrawn(self._offer):
            self._offer.run()
        self._offer.wait()
        _ = self._offer.result

    def give_up(self) -> None:
        """See `Started`."""
        if not self._withdrawn(self._offer):
            self._offer.wait()
