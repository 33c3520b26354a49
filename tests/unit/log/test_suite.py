"""Every log passes the one suite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millstream.log.log import Log
from tests.unit.log.suite import CHECKS, SUBJECTS, Subject


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_log(subject: Subject, check: Callable[[Subject, Log[Any]], None], tmp_path: Path) -> None:
    log = subject.open(tmp_path)
    check(subject, log)
    log.close()
    log.close()
