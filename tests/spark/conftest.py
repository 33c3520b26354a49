"""One Spark session for all tests of this folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from millstream.history.session import Spark, SparkSettings
from tests.spark.java import missing


@pytest.fixture(scope="session")
def spark() -> Iterator[Spark]:
    """A session of two threads, started by the first test that uses it."""
    why = missing()
    if why:
        warnings.warn(why, stacklevel=1)
        pytest.skip(why)
    from tests.spark.on_spark import MANY_JOBS

    made = Spark(SparkSettings("local[2]", options=MANY_JOBS))
    yield made
    made.close()
