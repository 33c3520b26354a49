"""How much the random tests try. `make test` takes a quarter of their draws, so that it ends in the
time that CI has on a slow day; `make test DRAWS=1` takes all, as before a release. Of examples it
is another quarter in each run, of numbered seeds always the first. What is not drawn (tables,
modes, conformance cases) is tried as a whole by either."""

from __future__ import annotations

import os
from fractions import Fraction
from math import ceil

SHARE = Fraction(os.environ.get("TEST_DRAWS", "1/4"))


def draws(whole: int) -> int:
    """How many examples or seeds a test takes of those that it has: one at the least."""
    return max(1, ceil(whole * SHARE))
