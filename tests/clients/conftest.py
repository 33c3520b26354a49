"""A server with nothing on it and without configuration, for one client."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.service.execution import open_engine
from millstream_server.auth.audit import Audit
from millstream_server.bootstrap.config import load_config
from millstream_server.bootstrap.wiring import gate
from tests.served import served


@pytest.fixture
def url() -> Iterator[str]:
    """Where it answers."""
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    engine.start()
    guard = gate(load_config(), engine, Audit(lambda line: None, time.time))
    with served(engine, guard=guard) as door:
        yield door.url
    engine.close()
