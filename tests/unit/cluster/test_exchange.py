"""The internal listener: authentication, valid requests, and errors."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from millstream.cluster import exchange as rooms
from millstream.cluster.exchange import Exchange, ExecuteStep, ReadRows
from millstream.cluster.partition_read import PartitionRead, decode_request, encode_request
from millstream.cluster.steps import AdvanceQuery, ProgressByQuery, SnapshotStep
from millstream.model.errors import StatementError, UnavailableError
from millstream.model.listener import InternalListener
from millstream.query.conditions import Condition
from millstream.runtime.alignment import Reached
from millstream.runtime.spec import QueryState
from tests.patience import PATIENCE_MS, PATIENCE_S

REQUEST = PartitionRead(
    "T", "CTAS_T_1", frozenset({0, 3}), (("K", "VARCHAR"),), (Condition("K", "=", ("a", 1)),)
)
SCHEMA = pa.schema([("K", pa.string()), ("N", pa.int64())])
BATCH = pa.record_batch([["a", "b"], [1, 2]], schema=SCHEMA)
Open = Callable[..., Exchange]


def plainly(request: PartitionRead) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    return SCHEMA, iter([BATCH, BATCH])


def refuse(snapshot_id: str, step: SnapshotStep) -> ProgressByQuery:
    raise UnavailableError("no part is taken", code="E-NOT-READY")


@pytest.fixture
def opened() -> Iterator[Open]:
    made: list[Exchange] = []

    def make(
        rows: ReadRows, listener: InternalListener | None = None, execute: ExecuteStep = refuse
    ) -> Exchange:
        made.append(Exchange(listener or InternalListener(token="secret"), rows, execute))
        return made[-1]

    yield make
    for each in made:
        each.close()
        each.close()


def test_rows_come_as_they_are_sent(opened: Open) -> None:
    heard = []

    def answer(request: PartitionRead) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        heard.append(request)
        return plainly(request)

    here = opened(answer)
    found = here.fetch(here.address, REQUEST, PATIENCE_MS)
    assert heard == [REQUEST]
    assert found == pa.Table.from_batches([BATCH, BATCH])


def test_steps_of_a_snapshot_travel_with_their_answers(opened: Open) -> None:
    heard = []
    reached = Reached(QueryState.RUNNING, "", frozenset({1}), {("t", 1): 7}, True)

    def execute(snapshot_id: str, step: SnapshotStep) -> ProgressByQuery:
        heard.append((snapshot_id, step))
        return {"Q": reached}

    here = opened(plainly, execute=execute)
    bring = AdvanceQuery("Q", {("t", 1): 7}, 0.5)
    assert here.send(here.address, "id", bring, PATIENCE_S) == {"Q": reached}
    assert heard == [("id", bring)]
    refusing = opened(plainly)
    with pytest.raises(UnavailableError, match="no part is taken") as found:
        here.send(refusing.address, "id", bring, PATIENCE_S)
    assert found.value.code == "E-NOT-READY"


def test_no_rows_have_a_schema_too(opened: Open) -> None:
    here = opened(lambda request: (SCHEMA, iter([])))
    found = here.fetch(here.address, REQUEST, PATIENCE_MS)
    assert found.schema == SCHEMA and found.num_rows == 0


@pytest.mark.parametrize("token", ["other", "secret2", "Bearer secret"])
def test_a_client_without_the_token_is_refused(opened: Open, token: str) -> None:
    here, stranger = opened(plainly), Exchange(InternalListener(token=token), plainly, refuse)
    with pytest.raises(UnavailableError, match="token"):
        stranger.fetch(here.address, REQUEST, PATIENCE_MS)
    stranger.close()


def test_nothing_else_of_the_protocol_is_answered(opened: Open) -> None:
    here = opened(plainly)
    client = flight.FlightClient(f"grpc://{here.address}")
    shown = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer secret")])
    with pytest.raises(flight.FlightUnauthenticatedError):
        list(client.list_flights())
    for call in (
        lambda: list(client.list_flights(options=shown)),
        lambda: client.get_flight_info(flight.FlightDescriptor.for_command(b"SELECT 1"), shown),
    ):
        with pytest.raises(NotImplementedError):
            call()
    with pytest.raises(flight.FlightServerError, match="not what an instance asks"):
        client.do_get(flight.Ticket(b"SELECT 1"), shown).read_all()
    for kind in ("run", "snapshot"):
        with pytest.raises(flight.FlightServerError, match=r"not what an inst|no step of a snap"):
            list(client.do_action(flight.Action(kind, b"SELECT 1"), shown))
    client.close()


@pytest.mark.parametrize("late", [False, True])
def test_errors_are_sent_without_internal_details(opened: Open, late: bool) -> None:
    errors: dict[str, Exception] = {
        "A": UnavailableError("E-NOT-READY partition 3", code="E-NOT-READY"),
        "B": StatementError("B has no such column", detail="/home/secret", code="E-X"),
        "C": ValueError("/home/secret"),
    }

    def failing(request: PartitionRead) -> Iterator[pa.RecordBatch]:
        yield BATCH
        raise errors[request.table]

    def answer(request: PartitionRead) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        if late:
            return SCHEMA, failing(request)
        raise errors[request.table]

    here = opened(answer)
    told = []
    for table in errors:
        with pytest.raises((UnavailableError, StatementError)) as caught:
            here.fetch(here.address, replace(REQUEST, table=table), PATIENCE_MS)
        told.append((type(caught.value), caught.value.code))
        assert "secret" not in str(caught.value)
    assert told[0] == (UnavailableError, "E-NOT-READY")
    assert told[1] == (StatementError, "E-X")
    assert told[2] == (UnavailableError, "E-UNAVAILABLE")


def test_an_instance_that_does_not_respond_in_time_is_not_waited_for(opened: Open) -> None:
    going_on = threading.Event()

    def answer(request: PartitionRead) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        going_on.wait(PATIENCE_S)
        return plainly(request)

    here = opened(answer)
    with pytest.raises(UnavailableError, match="did not give the rows of T"):
        here.fetch(here.address, REQUEST, 50)
    going_on.set()


def test_an_instance_that_is_gone_is_unavailable_and_may_come_back(opened: Open) -> None:
    here, there = opened(plainly), Exchange(InternalListener(token="secret"), plainly, refuse)
    assert here.fetch(there.address, REQUEST, PATIENCE_MS).num_rows == 4
    there.close()
    with pytest.raises(UnavailableError):
        here.fetch(there.address, REQUEST, PATIENCE_MS)
    again = Exchange(InternalListener(there.address, token="secret"), plainly, refuse)
    assert here.fetch(again.address, REQUEST, PATIENCE_MS).num_rows == 4
    again.close()


def test_rows_without_end_are_refused(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless() -> Iterator[pa.RecordBatch]:
        while True:
            yield BATCH

    monkeypatch.setattr(rooms, "BYTES_MAX", 10_000)
    here = opened(lambda request: (SCHEMA, endless()))
    with pytest.raises(StatementError, match="take more than") as caught:
        here.fetch(here.address, REQUEST, PATIENCE_MS)
    assert caught.value.code == "E-RESULT-LIMIT"


@pytest.mark.parametrize(
    "listener",
    [
        InternalListener(token=""),
        InternalListener("somewhere", token="t"),
        InternalListener("0.0.0.0:0", token="t"),
        InternalListener("0.0.0.0:0", token="t", certificate="cert.pem"),
        InternalListener("10.1.2.3:7000", token="t"),
        InternalListener("example.org:7000", token="t"),
    ],
)
def test_an_insecure_listener_is_not_opened(listener: InternalListener) -> None:
    with pytest.raises(StatementError):
        Exchange(listener, plainly, refuse)


def test_an_address_in_use_is_reported(opened: Open) -> None:
    taken = opened(plainly).address
    with pytest.raises(UnavailableError, match=taken):
        Exchange(InternalListener(taken, token="t"), plainly, refuse)


def test_the_token_is_not_shown() -> None:
    assert "secret" not in repr(InternalListener(token="secret"))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_it_is_encrypted_where_there_is_a_certificate(tmp_path: Path) -> None:
    def listener(name: str) -> InternalListener:
        key, certificate = tmp_path / f"{name}.key", tmp_path / f"{name}.pem"
        command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
        names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate]
        subprocess.run([*command.split(), *names], check=True, capture_output=True)
        files = str(certificate), str(key), str(certificate)
        return InternalListener("localhost:0", "", "secret", *files)

    ours, theirs = listener("ours"), listener("theirs")
    here, unsigned = Exchange(ours, plainly, refuse), Exchange(theirs, plainly, refuse)
    unsure = Exchange(replace(theirs, authorities=ours.authorities), plainly, refuse)
    assert here.fetch(here.address, REQUEST, PATIENCE_MS).num_rows == 4
    for stranger in (unsigned, unsure):
        with pytest.raises(UnavailableError):
            stranger.fetch(here.address, REQUEST, PATIENCE_MS)
    for each in (here, unsigned, unsure):
        each.close()


def test_the_advertised_address_is_published(opened: Open) -> None:
    there = Exchange(InternalListener(advertised="shop.example:7000", token="t"), plainly, refuse)
    assert there.address == "shop.example:7000"
    there.close()


def test_an_ask_is_read_back_as_it_was_sent() -> None:
    assert decode_request(encode_request(REQUEST)) == REQUEST


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"="', b'"OR"'),
        (b'["a", 1]', b"[]"),
        (b'["a", 1]', b"[true]"),
        (b'["a", 1]', b"[1.5]"),
        (b'"K", "="', b'5, "="'),
        (b"[0, 3]", b'["0"]'),
        (b'"version": 2', b'"version": 1'),
        (b'"table": "T"', b'"table": ["T"]'),
        (b"{", b"SELECT 1"),
        (b"[", b"[" * 100_000),
    ],
)
def test_what_is_no_ask_is_refused(before: bytes, after: bytes) -> None:
    content = encode_request(REQUEST)
    assert before in content
    with pytest.raises(StatementError, match="not what an instance asks"):
        decode_request(content.replace(before, after, 1))
