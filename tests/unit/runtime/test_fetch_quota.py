"""The amount requested of a partition whose records are held back."""

from __future__ import annotations

import pytest

from millstream.log.log import Fetched
from millstream.runtime.fetch_quota import FetchQuota
from millstream.runtime.spec import RuntimeSettings

PLACE = ("t", 0)
SETTINGS = RuntimeSettings(max_batch_records=10_000)


@pytest.mark.parametrize(("record", "wanted"), [(100, 1310), (50_000, 2), (1 << 20, 1)])
def test_little_is_asked_for_of_what_is_held_back_whatever_a_record_weighs(
    record: int, wanted: int
) -> None:
    fetch_quota = FetchQuota()
    fetch_quota.read(PLACE, Fetched("t", 0, [], 10, 10, False, 10 * record))
    before = fetch_quota.quota(PLACE, [PLACE], SETTINGS)
    fetch_quota.consumed(PLACE, 0, 10)
    assert fetch_quota.quota(PLACE, [PLACE], SETTINGS) == wanted < before
    for _ in range(20):
        fetch_quota.consumed(PLACE, wanted, wanted)
        wanted *= 2
    assert fetch_quota.quota(PLACE, [PLACE], SETTINGS) == before


def test_several_records_of_other_tasks_are_fetched_though_they_are_held_back() -> None:
    """Of one record each, a run takes about one of all partitions together."""
    quotas = []
    for moved in (True, False):
        fetch_quota = FetchQuota()
        fetch_quota.read(PLACE, Fetched("t", 0, [], 10, 10, False, 10 * 200_000))
        fetch_quota.consumed(PLACE, 0, 10, moved=moved)
        quotas.append(fetch_quota.quota(PLACE, [PLACE], SETTINGS))
    assert quotas == [5, 1]
