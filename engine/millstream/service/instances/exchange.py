"""The exchange of rows between instances: Arrow Flight, one door that answers an `Ask`.

Whoever comes in shows the service's token. Errors travel as (class, code, message); whatever else
goes wrong tells nothing of this process.
"""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from millstream.model.door import Door
from millstream.model.errors import MillstreamError, StatementError, UnavailableError
from millstream.service.instances.asking import Ask, ask_bytes, read_ask

BYTES_MAX = 1 << 30
"""What the rows of one ask may take in memory."""
_AUTHORIZATION = "authorization"

Answer = Callable[[Ask], tuple[pa.Schema, Iterator[pa.RecordBatch]]]
"""The rows that an ask is about; MillstreamError where it cannot be answered."""


class _Admission(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Turns away whoever does not show the token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._expected = f"Bearer {token}".encode()

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
        shown = headers.get(_AUTHORIZATION, [])
        if not any(hmac.compare_digest(each.encode(), self._expected) for each in shown):
            raise flight.FlightUnauthenticatedError("the token of the service is missing or wrong")


class _Server(flight.FlightServerBase):  # type: ignore[misc]
    """Answers `do_get`, and nothing else that Flight knows."""

    def __init__(self, door: Door, answer: Answer) -> None:
        encryption: dict[str, Any] = {}
        if door.encrypted:
            own = Path(door.certificate).read_bytes(), Path(door.key).read_bytes()
            encryption = {"tls_certificates": [own], "verify_client": True}
            encryption["root_certificates"] = Path(door.authorities).read_bytes()
        self._answer = answer
        super().__init__(
            door.location(door.address),
            middleware={_AUTHORIZATION: _Admission(door.token)},
            **encryption,
        )

    def do_get(self, context: Any, ticket: Any) -> Any:
        with _told():
            schema, batches = self._answer(read_ask(ticket.ticket))
        return flight.GeneratorStream(schema, _batches(batches))


def _batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with _told():
        yield from batches


@contextmanager
def _told() -> Iterator[None]:
    """Turns what is raised within into an error that may be told to another instance."""
    try:
        yield
    except UnavailableError as error:
        raise flight.FlightUnavailableError(error.message, _extra(error)) from None
    except MillstreamError as error:
        raise flight.FlightServerError(error.message, _extra(error)) from None
    except Exception:
        raise flight.FlightServerError("the rows could not be read") from None


def _extra(error: MillstreamError) -> bytes:
    return json.dumps({"code": error.code, "message": error.message}).encode()


class Exchange:
    """One instance's side of the exchange: it answers others, and asks them."""

    def __init__(self, door: Door, answer: Answer) -> None:
        """Opens the door at once. StatementError for one that is not safe, UnavailableError where
        its address cannot be listened at."""
        door.check()
        self._door = door
        try:
            self._server = _Server(door, answer)
        except (OSError, pa.ArrowException) as error:
            raise UnavailableError(
                f"The instance cannot listen at {door.address}", detail=str(error)
            ) from error
        host = door.address.rpartition(":")[0]
        self.address = door.advertised or f"{host}:{self._server.port}"
        """Where others reach it."""
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def fetch(self, address: str, ask: Ask, timeout_ms: int) -> pa.Table:
        """The rows that the instance at `address` has; UnavailableError when it does not answer in
        time or cannot, StatementError when it refuses."""
        options = flight.FlightCallOptions(
            timeout=timeout_ms / 1000,
            headers=[(_AUTHORIZATION.encode(), f"Bearer {self._door.token}".encode())],
        )
        try:
            stream = self._client(address).do_get(flight.Ticket(ask_bytes(ask)), options)
            return _received(stream, ask)
        except (flight.FlightError, pa.ArrowException, OSError) as error:
            raise self._translated(error, address, ask) from error

    def close(self) -> None:
        """Close the door and let go of the others; idempotent."""
        self._server.shutdown()
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def _client(self, address: str) -> Any:
        with self._lock:
            if address not in self._clients:
                self._clients[address] = _client(self._door, address)
            return self._clients[address]

    def _translated(self, error: Exception, address: str, ask: Ask) -> MillstreamError:
        told: dict[str, str] = {}
        with suppress(ValueError):
            told = json.loads(getattr(error, "extra_info", b"") or b"{}")
        if told and not isinstance(error, flight.FlightUnavailableError):
            return StatementError(told["message"], code=told["code"])
        if told:
            return UnavailableError(told["message"], code=told["code"])
        with self._lock:
            self._clients.pop(address, None)
        return UnavailableError(
            f"The instance at {address} did not give the rows of {ask.table}",
            detail=str(error).splitlines()[0],
        )


def _client(door: Door, address: str) -> Any:
    encryption = {}
    if door.encrypted:
        encryption = {
            "tls_root_certs": Path(door.authorities).read_bytes(),
            "cert_chain": Path(door.certificate).read_bytes(),
            "private_key": Path(door.key).read_bytes(),
        }
    return flight.FlightClient(door.location(address), **encryption)


def _received(stream: Any, ask: Ask) -> pa.Table:
    batches, size = [], 0
    for chunk in stream:
        size += chunk.data.nbytes
        if size > BYTES_MAX:
            stream.cancel()
            raise StatementError(
                f"The rows of {ask.table} on another instance take more than {BYTES_MAX >> 20} MiB",
                hint="Ask for less: conditions of WHERE on columns are tested over there.",
                code="E-RESULT-LIMIT",
            )
        batches.append(chunk.data)
    return pa.Table.from_batches(batches, stream.schema)
