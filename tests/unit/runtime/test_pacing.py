"""How much is asked for of a partition whose records are held back."""

from __future__ import annotations

import pytest

from millstream.log.log import Fetched
from millstream.runtime.pacing import Pacing
from millstream.runtime.spec import RuntimeSettings

PLACE = ("t", 0)
SETTINGS = RuntimeSettings(max_batch_records=10_000)


@pytest.mark.parametrize(("record", "wanted"), [(100, 1310), (50_000, 2), (1 << 20, 1)])
def test_little_is_asked_for_of_what_is_held_back_whatever_a_record_weighs(
    record: int, wanted: int
) -> None:
    pacing = Pacing()
    pacing.read(PLACE, Fetched("t", 0, [], 10, 10, False, 10 * record))
    before = pacing.quota(PLACE, [PLACE], SETTINGS)
    pacing.consumed(PLACE, 0, 10)
    assert pacing.quota(PLACE, [PLACE], SETTINGS) == wanted < before
    for _ in range(20):
        pacing.consumed(PLACE, wanted, wanted)
        wanted *= 2
    assert pacing.quota(PLACE, [PLACE], SETTINGS) == before
