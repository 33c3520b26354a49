"""Streams that were sealed for others: their listing, and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream
from millstream import Database, StatementError
from millstream.formats.decoder import decode_spec, decoder
from millstream.history.shared import MANIFEST, VERSION, Shared, shared
from millstream.model.schema import SourceKind

STREAM = SourceKind.STREAM
SCRIPT = """
CREATE TYPE place AS STRUCT<`town` STRING, spot ARRAY<DOUBLE>>;
CREATE STREAM trips (id STRING KEY, `Fare` DECIMAL(9, 2), day STRING, home place,
    via MAP<STRING, place>, h BYTES HEADER('h'))
  WITH (KAFKA_TOPIC='trips', PARTITIONS=2, VALUE_FORMAT='JSON', TIMESTAMP='day',
    TIMESTAMP_FORMAT='yyyy-MM-dd');
CREATE STREAM lines (id STRING KEY, n INT) WITH (KAFKA_TOPIC='lines', PARTITIONS=1,
    VALUE_FORMAT='DELIMITED', VALUE_DELIMITER='|');
CREATE STREAM few (v INT) WITH (KAFKA_TOPIC='few', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE counts AS SELECT v, COUNT(*) AS n FROM few WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY v;
CREATE STREAM counted (v INT KEY, n BIGINT) WITH (KAFKA_TOPIC='COUNTS', KEY_FORMAT='KAFKA',
    VALUE_FORMAT='JSON', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='1 HOUR');
"""
ADDED = "INSERT INTO few (ROWTIME, v) VALUES ({0}, {0});"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with millstream.connect(str(tmp_path / "shop.db")) as made:
        made.execute(SCRIPT)
        yield made


def values(stream: Shared) -> list[int]:
    spec = decode_spec(stream.source, (("V", "V"),))
    found = []
    with decoder(spec, stream.source.topic) as decoded:
        for split in stream.splits:
            for records, _ in stream.reader.pieces(split):
                found += decoded(records, split.partition).table["V"].to_pylist()
    return found


@pytest.mark.parametrize("name", ["TRIPS", "LINES", "FEW", "COUNTED"])
def test_all_that_decoding_depends_on_comes_back(db: Database, name: str) -> None:
    folder = db.seal()
    found = shared(folder, STREAM, name).source
    assert decode_spec(found) == decode_spec(db.engine.catalog.source(name))
    assert (found.name, found.topic) == (name, db.engine.catalog.source(name).topic)


def test_records_are_added_by_each_sealing(db: Database, tmp_path: Path) -> None:
    path = str(tmp_path / "shop.db")
    seen = []
    for n in range(3):
        db.execute(ADDED.format(n))
        db.seal()
        seen.append(values(shared(path, STREAM, "few")))
    assert seen == [[0], [0, 1], [0, 1, 2]]
    assert len(shared(path, STREAM, "few").splits) == 3


def test_what_cannot_be_read_is_refused(db: Database, tmp_path: Path) -> None:
    with pytest.raises(StatementError, match="not sealed"):
        shared(str(tmp_path / "shop.db"), STREAM, "few")
    folder = db.seal()
    with pytest.raises(StatementError, match="no stream counts") as caught:
        shared(folder, STREAM, "counts")
    assert "COUNTED, FEW, LINES, TRIPS" in caught.value.hint
    manifest = Path(folder) / MANIFEST
    newer = json.loads(manifest.read_text()) | {"version": VERSION + 1}
    manifest.write_text(json.dumps(newer))
    with pytest.raises(StatementError, match="newer version"):
        shared(folder, STREAM, "few")
