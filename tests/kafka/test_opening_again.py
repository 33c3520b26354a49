"""What could not be opened leaves nothing behind: the same process tries again and succeeds."""

from __future__ import annotations

import socket
import uuid
from pathlib import Path

import pytest

import millstream
from millstream import InstanceSettings, InternalListener
from millstream.model.errors import MillstreamError


def test_a_state_file_is_free_after_a_failed_start(servers: str, tmp_path: Path) -> None:
    service, state = f"again-{uuid.uuid4().hex[:8]}", str(tmp_path / "state")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        sharing = InstanceSettings(listener=InternalListener(f"127.0.0.1:{taken.getsockname()[1]}"))
        with pytest.raises(MillstreamError):
            millstream.connect(state, kafka=servers, service_id=service, sharing=sharing)
    millstream.connect(state, kafka=servers, service_id=service).close()
    millstream.connect(state, kafka=servers, service_id=service).close()
