"""A real broker for these tests: one that MILLSTREAM_KAFKA names, or one that is started here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TOOL = Path(__file__).with_name("kafka-local")


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of a cluster; skips, loudly, where there is no Java to run one."""
    given = os.environ.get("MILLSTREAM_KAFKA")
    if given:
        yield given
        return
    if shutil.which("java") is None or shutil.which("mvn") is None:
        pytest.skip("no Kafka: Java 17 and Maven are needed to fetch and run a broker")
    environment = {**os.environ, "KAFKA_LOCAL_DATA": str(tmp_path_factory.mktemp("kafka"))}

    def tool(*arguments: str) -> str:
        command = [sys.executable, str(TOOL), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.fail(f"kafka-local {' '.join(arguments)}: {done.stderr[-2000:]}")
        return done.stdout.strip()

    tool("install")
    yield tool("start", "--port", "0").splitlines()[-1]
    tool("stop", "--wipe")
