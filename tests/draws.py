"""How much the random tests try. `make test` takes a quarter of their draws, so that it is done in
half an hour; `make test DRAWS=1` takes all of them, as before a release. What is not drawn (tables,
modes, conformance cases) is tried as a whole by either."""

from __future__ import annotations

import os
from fractions import Fraction
from math import ceil

SHARE = Fraction(os.environ.get("TEST_DRAWS", "1/4"))


def draws(whole: int) -> int:
    """How many examples or seeds a test takes of those that it has: one at the least."""
    return max(1, ceil(whole * SHARE))
