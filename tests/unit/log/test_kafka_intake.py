"""Both ways to read Kafka's messages give what was written, bit for bit; against the brokers that
the client itself simulates."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition

from millstream.log.kafka import backend
from millstream.log.kafka.backend import open_intake
from millstream.log.kafka.client import consumer_config
from millstream.log.kafka.compiled import BatchIntake
from millstream.log.kafka.intake import Intake, MessageIntake, News
from millstream.model.batch import RAW_SCHEMA
from millstream.model.errors import UnavailableError
from tests.patience import PATIENCE_S

Headers = list[tuple[str, bytes | None]] | None
Record = tuple[bytes | None, bytes | None, Headers]


@pytest.fixture(scope="module")
def producer() -> Iterator[Producer]:
    """The simulated broker lives as long as this."""
    made = Producer({"test.mock.num.brokers": 1, "log_level": 2})
    yield made
    made.flush()


@pytest.fixture(params=["plain", "compiled"])
def intake(producer: Producer, request: pytest.FixtureRequest) -> Iterator[Intake]:
    library = backend.compiled_client()
    if request.param == "compiled" and library is None:
        pytest.skip("the library was not built: see CONTRIBUTING")
    broker = producer.list_topics(timeout=PATIENCE_S).brokers[1]
    config = consumer_config(f"{broker.host}:{broker.port}", "g", {})
    plain = request.param == "plain" or library is None
    made = MessageIntake(config) if plain else BatchIntake(config, library)
    yield made
    made.close()


def write(producer: Producer, topic: str, partition: int, records: list[Record]) -> None:
    producer.list_topics(topic, timeout=PATIENCE_S)
    for row, (key, value, headers) in enumerate(records):
        more = {} if headers is None else {"headers": headers}
        producer.produce(topic, value, key, partition, timestamp=1000 + row, **more)
    producer.flush()


def read(intake: Intake, ends: int) -> dict[int, list[pa.Table | News]]:
    """All pieces by partition, until so many ends have been reached."""
    found: dict[int, list[pa.Table | News]] = {}
    deadline = time.monotonic() + PATIENCE_S
    while ends and time.monotonic() < deadline:
        for (_, partition), piece in intake.take(0.02):
            found.setdefault(partition, []).append(piece)
            if isinstance(piece, News):
                ends -= piece.error.code() == KafkaError._PARTITION_EOF
            else:
                piece.validate(full=True)
    assert not ends
    return found


def shown(records: list[Record], first: int = 0) -> list[dict[str, object]]:
    return [
        {
            "offset": row,
            "timestamp": 1000 + row,
            "key": key,
            "value": value,
            "headers": headers and [{"key": name, "value": held} for name, held in headers],
        }
        for row, (key, value, headers) in enumerate(records)
        if row >= first
    ]


CASES: dict[str, list[Record]] = {
    "empty": [],
    "one": [(b"k", b"v", None)],
    "null keys and tombstones": [
        (None, None, None),
        (b"", b"", None),
        (None, b"v", None),
        (b"k", None, None),
    ],
    "all null": [(None, None, None)] * 17,
    "headers": [
        (b"a", b"1", [("h", b"x"), ("ä€😀", None), ("", b"")]),
        (b"b", None, None),
        (None, b"3", [("h", None)]),
        (b"d", b"4", [("h", bytes(range(256))), ("h", b"again")]),
    ],
    "sizes": [(b"k" * size, b"v" * size, None) for size in (*range(130), 65_535, 65_536, 400_000)],
    "many": [(b"%d" % row, b"v" * (row % 50), None) for row in range(30_000)],
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_is_read(intake: Intake, producer: Producer, name: str) -> None:
    topic = f"{name}-{type(intake).__name__}".replace(" ", "-")
    write(producer, topic, 1, CASES[name])
    intake.assign([TopicPartition(topic, 1, 0)])
    tables = [piece for piece in read(intake, 1).get(1, []) if isinstance(piece, pa.Table)]
    joined = pa.concat_tables([RAW_SCHEMA.empty_table(), *tables])
    assert joined.schema == RAW_SCHEMA
    assert joined.to_pylist() == shown(CASES[name])


def test_runs_of_several_partitions_and_their_ends(intake: Intake, producer: Producer) -> None:
    topic = f"runs-{type(intake).__name__}"
    records: list[Record] = [(b"%d" % row, b"v", None) for row in range(500)]
    for partition in range(4):
        write(producer, topic, partition, records)
    intake.assign([TopicPartition(topic, partition, 100 * partition) for partition in range(4)])
    found = read(intake, 4)
    for partition in range(4):
        *tables, end = found[partition]
        assert isinstance(end, News)
        assert end.offset == 500
        assert pa.concat_tables(tables).to_pylist() == shown(records, 100 * partition)


def test_an_offset_that_is_not_there_is_an_error(intake: Intake, producer: Producer) -> None:
    topic = f"gap-{type(intake).__name__}"
    write(producer, topic, 0, [(b"k", b"v", None)])
    intake.assign([TopicPartition(topic, 0, 7)])
    deadline = time.monotonic() + PATIENCE_S
    pieces = []
    while not pieces and time.monotonic() < deadline:
        pieces += intake.take(0.02)
    (topic_partition, news), *_ = pieces
    assert topic_partition == (topic, 0)
    assert isinstance(news, News)
    assert news.error.code() == KafkaError._AUTO_OFFSET_RESET
    assert "out of range" in news.error.str()


def test_what_is_no_partition_s_does_not_disturb(intake: Intake, producer: Producer) -> None:
    """A partition that the topic does not have: the client calls its error callback."""
    topic = f"none-{type(intake).__name__}"
    write(producer, topic, 0, [(b"k", b"v", None)])
    intake.assign([TopicPartition(topic, 99, 0), TopicPartition(topic, 0, 0)])
    assert [len(piece) for piece in read(intake, 1)[0] if isinstance(piece, pa.Table)] == [1]
    intake.take(0.02)


def test_batches_outlive_their_reader(intake: Intake, producer: Producer) -> None:
    topic = f"outlive-{type(intake).__name__}"
    write(producer, topic, 0, CASES["headers"])
    intake.assign([TopicPartition(topic, 0, 0)])
    table = next(piece for piece in read(intake, 1)[0] if isinstance(piece, pa.Table))
    value, names = table["value"], table["headers"].combine_chunks().flatten().field("key")
    intake.close()
    del table
    assert value.to_pylist() == [b"1", None, b"3", b"4"]
    assert names.to_pylist() == ["h", "ä€😀", "", "h", "h", "h"]


def test_closing_with_unread_messages(intake: Intake, producer: Producer) -> None:
    topic = f"unread-{type(intake).__name__}"
    write(producer, topic, 0, CASES["many"])
    intake.assign([TopicPartition(topic, 0, 0)])
    deadline = time.monotonic() + PATIENCE_S
    while not intake.take(0.02):
        assert time.monotonic() < deadline
    intake.close()


def test_a_closed_one_refuses(intake: Intake) -> None:
    intake.close()
    for call in (lambda: intake.take(0.02), lambda: intake.assign([TopicPartition("t", 0, 0)])):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(backend.SWITCH, "plain")
    made = open_intake({"group.id": "g", "log_level": 2})
    made.close()
    assert isinstance(made, MessageIntake)


Break = Callable[[Path], None]


@pytest.mark.parametrize(
    ("breaks", "error"),
    [
        (lambda path: path.unlink(), OSError),
        (lambda path: path.write_bytes(b"no library"), OSError),
    ],
    ids=["missing", "damaged"],
)
def test_a_library_that_does_not_load(
    tmp_path: Path, breaks: Break, error: type[Exception]
) -> None:
    path = tmp_path / "library.so"
    path.write_bytes(b"")
    breaks(path)
    with pytest.raises(error):
        backend.load(path)


def test_a_client_that_was_never_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if backend.compiled_client() is None:
        pytest.skip("the library was not built: see CONTRIBUTING")
    path = shutil.copy(backend.LIBRARY, tmp_path / "library.so")
    monkeypatch.setattr(backend, "_VERSIONS", range(1, 2))
    with pytest.raises(UnavailableError, match="never tried"):
        backend.load(path)
