"""A server with nothing on it, for one client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millstream.model.settings import EngineSettings
from millstream.service.clock import now_ms
from millstream.service.execution import open_engine
from tests.served import served


@pytest.fixture
def url() -> Iterator[str]:
    """Where it answers."""
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    engine.start()
    with served(engine) as door:
        yield door.url
    engine.close()
