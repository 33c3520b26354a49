"""These tests need a real broker; `make kafka` starts one and says where it is."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session")
def servers() -> str:
    """host:port of a cluster without topics that are needed: the tests delete all."""
    given = os.environ.get("MILLSTREAM_KAFKA")
    if not given:
        pytest.skip("no Kafka: run `make kafka`, or set MILLSTREAM_KAFKA=host:port")
    return given
