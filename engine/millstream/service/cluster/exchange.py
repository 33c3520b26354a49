"""The exchange between instances: Arrow Flight, one door that gives the rows of an `PartitionRead`
and does the steps of a snapshot.

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

from millstream.model.errors import MillstreamError, StatementError, UnavailableError
from millstream.model.listener import InternalListener
from millstream.service.cluster.partition_read import PartitionRead, ask_bytes, read_ask
from millstream.service.cluster.steps import (
    ProgressByQuery,
    Step,
    answer_bytes,
    read_answer,
    read_step,
    step_bytes,
)

BYTES_MAX = 1 << 30
"""What the rows of one ask may take in memory."""
_AUTHORIZATION = "authorization"

Rows = Callable[[PartitionRead], tuple[pa.Schema, Iterator[pa.RecordBatch]]]
"""The rows that an ask is about; MillstreamError where it cannot be answered."""
Do = Callable[[str, Step], ProgressByQuery]
"""Does a step of the snapshot with this id; MillstreamError where it cannot be done."""
SNAPSHOT = "snapshot"
"""The Flight action that is a step of a snapshot."""


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
    """Answers `do_get`, and `do_action` for steps of snapshots; nothing else that Flight knows."""

    def __init__(self, door: InternalListener, rows: Rows, do: Do) -> None:
        encryption: dict[str, Any] = {}
        if door.encrypted:
            own = Path(door.certificate).read_bytes(), Path(door.key).read_bytes()
            encryption = {"tls_certificates": [own], "verify_client": True}
            encryption["root_certificates"] = Path(door.authorities).read_bytes()
        self._rows = rows
        self._do = do
        super().__init__(
            door.location(door.address),
            middleware={_AUTHORIZATION: _Admission(door.token)},
            **encryption,
        )

    def do_get(self, context: Any, ticket: Any) -> Any:
        with _told():
            schema, batches = self._rows(read_ask(ticket.ticket))
        return flight.GeneratorStream(schema, _batches(batches))

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:
        with _told():
            if action.type != SNAPSHOT:
                raise StatementError("This is not what an instance asks another for")
            answer = self._do(*read_step(action.body.to_pybytes()))
        return iter([answer_bytes(answer)])


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

    def __init__(self, door: InternalListener, rows: Rows, do: Do) -> None:
        """Opens the door at once. StatementError for one that is not safe, UnavailableError where
        its address cannot be listened at."""
        door.check()
        self._door = door
        try:
            self._server = _Server(door, rows, do)
        except (OSError, pa.ArrowException) as error:
            raise UnavailableError(
                f"The instance cannot listen at {door.address}", detail=str(error)
            ) from error
        host = door.address.rpartition(":")[0]
        self.address = door.advertised or f"{host}:{self._server.port}"
        """Where others reach it."""
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def fetch(self, address: str, ask: PartitionRead, timeout_ms: int) -> pa.Table:
        """The rows that the instance at `address` has; UnavailableError when it does not answer in
        time or cannot, StatementError when it refuses."""
        ticket = flight.Ticket(ask_bytes(ask))
        with self._translating(address, f"give the rows of {ask.table}"):
            stream = self._client(address).do_get(ticket, self._options(timeout_ms / 1000))
            return _received(stream, ask)

    def send(self, address: str, snapshot_id: str, step: Step, seconds: float) -> ProgressByQuery:
        """What the instance at `address` answers to a step of a snapshot; UnavailableError when it
        does not answer in time or cannot do it, StatementError when it refuses."""
        action = flight.Action(SNAPSHOT, step_bytes(snapshot_id, step))
        with self._translating(address, "take part in a snapshot"):
            results = self._client(address).do_action(action, self._options(seconds))
            return read_answer(next(iter(results)).body.to_pybytes())

    def _options(self, seconds: float) -> Any:
        return flight.FlightCallOptions(
            timeout=seconds,
            headers=[(_AUTHORIZATION.encode(), f"Bearer {self._door.token}".encode())],
        )

    @contextmanager
    def _translating(self, address: str, what: str) -> Iterator[None]:
        try:
            yield
        except (flight.FlightError, pa.ArrowException, OSError) as error:
            raise self._translated(error, address, what) from error

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

    def _translated(self, error: Exception, address: str, what: str) -> MillstreamError:
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
            f"The instance at {address} did not {what}",
            detail=str(error).splitlines()[0],
        )


def _client(door: InternalListener, address: str) -> Any:
    encryption = {}
    if door.encrypted:
        encryption = {
            "tls_root_certs": Path(door.authorities).read_bytes(),
            "cert_chain": Path(door.certificate).read_bytes(),
            "private_key": Path(door.key).read_bytes(),
        }
    return flight.FlightClient(door.location(address), **encryption)


def _received(stream: Any, ask: PartitionRead) -> pa.Table:
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
