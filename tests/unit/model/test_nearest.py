"""The nearest known names."""

import pytest

from millstream.model.nearest import Suggested, did_you_mean, nearest, topic_hint


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("SPENDIN", "SPENDING"),
        ("spending", "SPENDING"),
        ("SPEDNING", "SPENDING"),
        ("order", "orders"),
        ("ZEBRA", None),
        ("", None),
        ("S" * 100_000, None),
    ],
)
def test_the_nearest(name: str, near: str | None) -> None:
    assert nearest(name, ("SPENDING", "orders", "VISITS")) == near


def test_hints() -> None:
    assert did_you_mean("VISIT", ["VISITS"]) == "Did you mean VISITS?"
    assert (
        did_you_mean("VISIT", ["VISITS"], "See the list.") == "Did you mean VISITS? See the list."
    )
    assert did_you_mean("ZEBRA", ["VISITS"], "See the list.") == "See the list."


def test_a_topic_is_named_where_it_is_visible() -> None:
    hint = topic_hint("visit", ["_visit", "visits"], "SHOW TOPICS.")
    assert hint == "Did you mean 'visits'? SHOW TOPICS."
    assert isinstance(hint, Suggested)
    assert (hint.kind, hint.named, hint.otherwise) == ("topic", "visits", "SHOW TOPICS.")
    assert topic_hint("zebra", ["visits"], "SHOW TOPICS.") == "SHOW TOPICS."
