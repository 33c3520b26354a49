"""Labels name the tasks that have sent the rows of a record."""

from __future__ import annotations

from random import Random

import pytest

from millstream.executor.sender_labels import SENDER_LABELS, label, senders_of
from millstream.model.batch import raw_batch
from millstream.model.errors import CorruptionError
from tests.draws import draws


@pytest.mark.parametrize(
    ("senders", "text"), [([3], b"3"), ([0, 1, 2, 3], b"0-3"), ([0, 1, 2, 17, 19], b"0-2,17,19")]
)
def test_neighbours_are_written_as_a_range(senders: list[int], text: bytes) -> None:
    assert label(senders) == text
    assert senders_of(text) == frozenset(senders)


@pytest.mark.parametrize("seed", range(draws(20)))
def test_what_is_written_is_read(seed: int) -> None:
    rnd = Random(seed)
    senders = sorted(rnd.sample(range(256), rnd.randint(1, 256)))
    assert senders_of(label(senders)) == frozenset(senders)


@pytest.mark.parametrize("text", [b"", b"x", b"1-", b"-", b"1,,2", b"\xff"])
def test_other_keys_are_an_error(text: bytes) -> None:
    with pytest.raises(CorruptionError, match="should name the tasks"):
        senders_of(text)


def test_a_record_without_a_key_is_of_an_instance_with_all_tasks() -> None:
    batch = raw_batch([(None, b"a", 0), (b"1-2", b"b", 0)])
    first, second = SENDER_LABELS.records(batch)
    assert (first.offset, first.senders) == (0, frozenset())
    assert (second.offset, second.senders) == (1, frozenset({1, 2}))
    assert SENDER_LABELS.join([first.batch, second.batch]).equals(batch)
    assert SENDER_LABELS.join([]).num_rows == 0
