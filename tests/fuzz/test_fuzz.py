"""A few requests of `make fuzz-http`, so that what it runs stays whole."""

from __future__ import annotations

import pytest

from tests.clients.places import need
from tests.draws import draws
from tests.fuzz.run import main


@pytest.mark.slow
def test_a_few_requests() -> None:
    need("schemathesis")
    assert main(["--requests", str(draws(100))]) == 0
