"""The exchange between instances, over Arrow Flight: one listener that serves the rows of a
`PartitionRead` and executes the steps of snapshots.

Every call carries the service's token. Errors travel as class, code and message; an unexpected
error reveals nothing about this process.
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

from millstream.cluster.partition_read import PartitionRead, decode_request, encode_request
from millstream.cluster.steps import (
    ProgressByQuery,
    SnapshotStep,
    decode_progress,
    decode_step,
    encode_progress,
    encode_step,
)
from millstream.model.errors import MillstreamError, StatementError, UnavailableError
from millstream.model.listener import InternalListener

BYTES_MAX = 1 << 30
"""The maximum size in memory of the rows of one request."""
_AUTHORIZATION = "authorization"

ReadRows = Callable[[PartitionRead], tuple[pa.Schema, Iterator[pa.RecordBatch]]]
"""Returns the rows of a request; raises MillstreamError when it cannot."""
ExecuteStep = Callable[[str, SnapshotStep], ProgressByQuery]
"""Executes a step of the snapshot with this id; raises MillstreamError when it cannot."""
SNAPSHOT = "snapshot"
"""The type of the Flight action that executes a step of a snapshot."""


class _TokenAuthentication(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses calls without the token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._expected = f"Bearer {token}".encode()

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
        tokens = headers.get(_AUTHORIZATION, [])
        if not any(hmac.compare_digest(token.encode(), self._expected) for token in tokens):
            raise flight.FlightUnauthenticatedError("the token of the service is missing or wrong")


class _Server(flight.FlightServerBase):  # type: ignore[misc]
    """Serves `do_get`, and `do_action` for the steps of snapshots; no other call of Flight."""

    def __init__(self, listener: InternalListener, read: ReadRows, execute: ExecuteStep) -> None:
        encryption: dict[str, Any] = {}
        if listener.encrypted:
            own = Path(listener.certificate).read_bytes(), Path(listener.key).read_bytes()
            encryption = {"tls_certificates": [own], "verify_client": True}
            encryption["root_certificates"] = Path(listener.authorities).read_bytes()
        self._read = read
        self._execute = execute
        super().__init__(
            listener.location(listener.address),
            middleware={_AUTHORIZATION: _TokenAuthentication(listener.token)},
            **encryption,
        )

    def do_get(self, context: Any, ticket: Any) -> Any:
        with _flight_errors():
            schema, batches = self._read(decode_request(ticket.ticket))
        return flight.GeneratorStream(schema, _batches(batches))

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:
        with _flight_errors():
            if action.type != SNAPSHOT:
                raise StatementError("This is not what an instance asks another for")
            answer = self._execute(*decode_step(action.body.to_pybytes()))
        return iter([encode_progress(answer)])


def _batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with _flight_errors():
        yield from batches


@contextmanager
def _flight_errors() -> Iterator[None]:
    """Context manager that translates errors to Flight errors safe for another instance to see."""
    try:
        yield
    except UnavailableError as error:
        raise flight.FlightUnavailableError(error.message, _extra_info(error)) from None
    except MillstreamError as error:
        raise flight.FlightServerError(error.message, _extra_info(error)) from None
    except Exception:
        raise flight.FlightServerError("the rows could not be read") from None


def _extra_info(error: MillstreamError) -> bytes:
    return json.dumps({"code": error.code, "message": error.message}).encode()


class Exchange:
    """One instance's side of the exchange: server for other instances, and client of them."""

    def __init__(self, listener: InternalListener, read: ReadRows, execute: ExecuteStep) -> None:
        """Opens the listener at once. Raises StatementError if it is not secure, and
        UnavailableError if its address cannot be bound."""
        listener.check()
        self._listener = listener
        try:
            self._server = _Server(listener, read, execute)
        except (OSError, pa.ArrowException) as error:
            raise UnavailableError(
                f"The instance cannot listen at {listener.address}", detail=str(error)
            ) from error
        host = listener.address.rpartition(":")[0]
        self.address = listener.advertised or f"{host}:{self._server.port}"
        """The address for other instances."""
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def fetch(self, address: str, request: PartitionRead, timeout_ms: int) -> pa.Table:
        """Fetch rows from the instance at `address`; UnavailableError when it cannot serve them or
        does not respond in time, StatementError when it refuses."""
        ticket = flight.Ticket(encode_request(request))
        with self._errors_of(address, f"give the rows of {request.table}"):
            stream = self._client(address).do_get(ticket, self._options(timeout_ms / 1000))
            return _read_all(stream, request)

    def send(
        self, address: str, snapshot_id: str, step: SnapshotStep, seconds: float
    ) -> ProgressByQuery:
        """Have the instance at `address` execute a step of a snapshot; UnavailableError when it
        cannot or does not respond in time, StatementError when it refuses."""
        action = flight.Action(SNAPSHOT, encode_step(snapshot_id, step))
        with self._errors_of(address, "take part in a snapshot"):
            results = self._client(address).do_action(action, self._options(seconds))
            return decode_progress(next(iter(results)).body.to_pybytes())

    def _options(self, seconds: float) -> Any:
        return flight.FlightCallOptions(
            timeout=seconds,
            headers=[(_AUTHORIZATION.encode(), f"Bearer {self._listener.token}".encode())],
        )

    @contextmanager
    def _errors_of(self, address: str, what: str) -> Iterator[None]:
        try:
            yield
        except (flight.FlightError, pa.ArrowException, OSError) as error:
            raise self._translated(error, address, what) from error

    def close(self) -> None:
        """Close the listener and the connections; idempotent."""
        self._server.shutdown()
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def _client(self, address: str) -> Any:
        with self._lock:
            if address not in self._clients:
                self._clients[address] = _client(self._listener, address)
            return self._clients[address]

    def _translated(self, error: Exception, address: str, what: str) -> MillstreamError:
        info: dict[str, str] = {}
        with suppress(ValueError):
            info = json.loads(getattr(error, "extra_info", b"") or b"{}")
        if info and not isinstance(error, flight.FlightUnavailableError):
            return StatementError(info["message"], code=info["code"])
        if info:
            return UnavailableError(info["message"], code=info["code"])
        with self._lock:
            self._clients.pop(address, None)
        return UnavailableError(
            f"The instance at {address} did not {what}",
            detail=str(error).splitlines()[0],
        )


def _client(listener: InternalListener, address: str) -> Any:
    encryption = {}
    if listener.encrypted:
        encryption = {
            "tls_root_certs": Path(listener.authorities).read_bytes(),
            "cert_chain": Path(listener.certificate).read_bytes(),
            "private_key": Path(listener.key).read_bytes(),
        }
    return flight.FlightClient(listener.location(address), **encryption)


def _read_all(stream: Any, request: PartitionRead) -> pa.Table:
    batches, size = [], 0
    for chunk in stream:
        size += chunk.data.nbytes
        if size > BYTES_MAX:
            stream.cancel()
            raise StatementError(
                f"The rows of {request.table} on another instance take more than"
                f" {BYTES_MAX >> 20} MiB",
                hint="Select fewer rows: the other instance evaluates simple conditions of WHERE.",
                code="E-RESULT-LIMIT",
            )
        batches.append(chunk.data)
    return pa.Table.from_batches(batches, stream.schema)
