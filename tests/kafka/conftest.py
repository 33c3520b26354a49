"""These tests need a real broker; `make kafka` starts one and passes its address."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from millstream.log.kafka.backend import SWITCH, compiled_client

if TYPE_CHECKING:
    from tests.kafka.parties import Party


@pytest.fixture(scope="session")
def servers() -> str:
    """host:port of a cluster without topics that are needed: the tests delete all."""
    given = os.environ.get("MILLSTREAM_KAFKA")
    if not given:
        pytest.skip("no Kafka: run `make kafka`, or set MILLSTREAM_KAFKA=host:port")
    return given


@pytest.fixture(scope="module", params=["plain", "compiled"])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """How all clients of the test are read and written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, request.param)
        if request.param == "compiled" and compiled_client() is None:
            pytest.skip("the library was not built: see CONTRIBUTING")
        yield request.param


@pytest.fixture
def party(servers: str) -> Iterator[Party]:
    """Processes of a service of one's own, which are gone afterwards."""
    from tests.kafka.parties import Party

    made = Party(servers)
    yield made
    made.close()
