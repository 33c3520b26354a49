"""The scalar functions, one table per category."""

from __future__ import annotations

from millstream.functions.function import ScalarFunction
from millstream.functions.scalar.arrays import ARRAYS
from millstream.functions.scalar.byte_functions import BYTE_FUNCTIONS
from millstream.functions.scalar.conditional import CONDITIONAL
from millstream.functions.scalar.json_functions import JSON
from millstream.functions.scalar.lambdas import LAMBDAS
from millstream.functions.scalar.maps import MAPS
from millstream.functions.scalar.mathematical import MATHEMATICAL
from millstream.functions.scalar.regular import REGULAR
from millstream.functions.scalar.rounding import ROUNDING
from millstream.functions.scalar.strings import STRINGS
from millstream.functions.scalar.times import TIMES
from millstream.functions.scalar.urls import URLS

SCALAR: tuple[ScalarFunction, ...] = (
    *CONDITIONAL,
    *MATHEMATICAL,
    *ROUNDING,
    *STRINGS,
    *REGULAR,
    *JSON,
    *BYTE_FUNCTIONS,
    *TIMES,
    *ARRAYS,
    *MAPS,
    *URLS,
    *LAMBDAS,
)
"""Every scalar function."""
