"""When a member changes its subscription."""

from __future__ import annotations

from millstream.log.kafka.lease_topics import LeaseTopics

LONG_AGO, NOW = 0.5, 100.0


def applied(topics: LeaseTopics, now: float) -> frozenset[str] | None:
    """What a member does with it."""
    if (due := topics.due(now)) is not None:
        topics.subscribed = due
    return due


def test_changes_that_come_together_are_made_together() -> None:
    topics = LeaseTopics()
    for number in range(5):
        topics.add(f"q{number}", NOW + number / 10)
        assert applied(topics, NOW + number / 10) is None
    assert applied(topics, NOW + 0.65) == {f"q{number}" for number in range(5)}
    assert applied(topics, NOW + 0.7) is None, "nothing has changed"


def test_changes_that_never_end_are_not_waited_for() -> None:
    topics = LeaseTopics()
    made = []
    for number in range(40):
        topics.add(f"q{number}", NOW + number / 10)
        if (due := applied(topics, NOW + number / 10)) is not None:
            made.append(len(due))
    assert 2 <= len(made) <= 5
    assert made == sorted(made)


def test_what_was_removed_goes_soon() -> None:
    topics = LeaseTopics()
    topics.add("a", LONG_AGO)
    topics.add("b", LONG_AGO)
    assert applied(topics, NOW) == {"a", "b"}
    topics.remove("a", NOW)
    topics.remove("never", NOW)
    assert applied(topics, NOW + 0.1) is None
    assert applied(topics, NOW + 0.3) == {"b"}
    topics.remove("b", NOW + 1)
    assert applied(topics, NOW + 2) == frozenset()


def test_one_that_comes_back_at_once_was_never_away() -> None:
    topics = LeaseTopics()
    topics.add("a", LONG_AGO)
    assert applied(topics, NOW) == {"a"}
    topics.remove("a", NOW)
    topics.add("a", NOW + 0.1)
    assert applied(topics, NOW + 5) is None


def test_the_last_tasks_of_a_name_are_kept_for_its_next_process() -> None:
    """A process that ends closes its queries one by one."""
    topics = LeaseTopics(keep_seconds=10.0)
    topics.add("a", LONG_AGO)
    topics.add("b", LONG_AGO)
    assert applied(topics, NOW) == {"a", "b"}
    topics.remove("a", NOW)
    topics.remove("b", NOW + 2)
    assert applied(topics, NOW + 9) is None
    assert applied(topics, NOW + 11) == {"b"}
    assert applied(topics, NOW + 13) == frozenset()


def test_the_tasks_of_a_dropped_query_are_not_kept() -> None:
    topics = LeaseTopics(keep_seconds=10.0)
    topics.add("a", LONG_AGO)
    topics.add("b", LONG_AGO)
    assert applied(topics, NOW) == {"a", "b"}
    topics.remove("a", NOW)
    topics.hurry("a")
    assert topics.hurried
    assert applied(topics, NOW) == {"b"}
    assert not topics.hurried
    topics.hurry("b")
    assert applied(topics, NOW + 50) is None, "it was not removed"
    assert not topics.hurried, "nothing is left to do at once"


def test_a_name_subscribes_to_all_it_had_at_once() -> None:
    """What is missing in its first subscription would be assigned to others for a moment."""
    topics = LeaseTopics(keep_seconds=10.0)
    for number in range(5):
        topics.add(f"q{number}", NOW + number / 2)
        assert applied(topics, NOW + number / 2 + 0.4) is None
    assert applied(topics, NOW + 3) == {f"q{number}" for number in range(5)}
    topics.add("later", NOW + 5)
    assert applied(topics, NOW + 5.3) is not None
