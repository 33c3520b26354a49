"""Requests to a registry, each in a thread of its own: nobody waits for one longer than they
choose to, and several that want the same wait for one request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

from millstream.model.errors import UnavailableError

Found = TypeVar("Found")
STATEMENT_SECONDS = 10.0
"""How long a statement waits for an answer."""
PROCESSING_SECONDS = 1.0
"""How long a thread that processes queries waits for one, where the registry has answered the
last time. Otherwise it does not wait."""
UNDER_WAY_MAX = 16
"""Requests at a time; a registry that hangs must not fill the process with threads."""


class Requests:
    """The requests to one registry that are under way. The methods may be called by any thread."""

    def __init__(self, registry: str) -> None:
        """`registry`: what it is called in errors."""
        self._registry = registry
        self._lock = threading.Lock()
        self._under_way: dict[Hashable, Future[Any]] = {}
        self.silent = False
        """Whether the registry has not answered the last time."""

    def answer(self, what: str, key: Hashable, ask: Callable[[], Found], seconds: float) -> Found:
        """What `ask` returns or raises. Raises UnavailableError if that takes too long; the request
        goes on, and the next caller with its `key` waits for the same. `what`: what is asked
        for."""
        future = self._begun(what, key, ask)
        try:
            found: Found = future.result(seconds)
        except TimeoutError:
            self.silent = True
            raise self._missing(what) from None
        return found

    def _missing(self, what: str) -> UnavailableError:
        return UnavailableError(
            f"The schema registry at {self._registry} has not answered yet ({what})",
            hint="It is asked again. Does it run, and can it be reached from here?",
        )

    def _begun(self, what: str, key: Hashable, ask: Callable[[], Found]) -> Future[Found]:
        with self._lock:
            known = self._under_way.get(key)
            if known is not None:
                return known
            if len(self._under_way) >= UNDER_WAY_MAX:
                raise self._missing(what)
            future: Future[Found] = Future()
            self._under_way[key] = future
        # A daemon: the process must be able to end while a registry hangs.
        run = threading.Thread(
            target=self._run, args=(key, ask, future), name="millstream-registry", daemon=True
        )
        run.start()
        return future

    def _run(self, key: Hashable, ask: Callable[[], Found], future: Future[Found]) -> None:
        try:
            found = ask()
        except BaseException as error:
            self._end(key, silent=isinstance(error, UnavailableError))
            future.set_exception(error)
        else:
            self._end(key, silent=False)
            future.set_result(found)

    def _end(self, key: Hashable, *, silent: bool) -> None:
        with self._lock:
            self.silent = silent
            del self._under_way[key]
