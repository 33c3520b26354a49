"""A few payloads of `make fuzz-formats`, and that it finds what is wrong."""

from __future__ import annotations

import pytest

from millstream.catalog.formats import CAPABILITIES
from millstream.formats.payload import Bytes, Layout, Read
from tests.fuzz import payloads


@pytest.mark.parametrize("name", sorted(CAPABILITIES.keys() - {"NONE"}))
def test_a_few_payloads(name: str) -> None:
    assert payloads.main(["--payloads", "4000", "--formats", name]) == 0


def test_a_row_that_is_lost_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read = payloads.read_payload

    def losing(con: object, payload: Bytes, layout: Layout, name: str) -> Read:
        found = read(con, payload, layout, name)  # type: ignore[arg-type]
        first = {0: "lost"} if found.bad else {}
        return Read(found.columns, {**found.bad, **first})

    monkeypatch.setattr(payloads, "read_payload", losing)
    assert payloads.main(["--payloads", "4000", "--formats", "AVRO"]) == 1
    assert "an untouched row is bad: lost" in capsys.readouterr().out
