"""The plug-in for pytest: fixtures for tests of streams, tables and queries. See docs/testing.md.

pytest imports this in every run of every project that has Millstream installed. So it is a package
of its own, as `import millstream` loads DuckDB and Arrow, and it imports only what a fixture uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from millstream import Database
    from millstream.functions.user import UserFunction
    from millstream.testing import TopologyTestDriver
    from millstream.testing.times import Time


class DriverFunction(Protocol):
    """Creates a `TopologyTestDriver`, and closes it after the test."""

    def __call__(
        self,
        sql: str,
        /,
        *,
        properties: Mapping[str, object] | None = None,
        functions: Sequence[UserFunction] = (),
        start: Time = 0,
        timeout_seconds: float = 60.0,
    ) -> TopologyTestDriver:
        """See `TopologyTestDriver`."""


@pytest.fixture
def ms_db() -> Iterator[Database]:
    """A database in memory, which is closed after the test. Its queries read records that were
    there before them: `auto.offset.reset` is `earliest`."""
    import millstream

    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as database:
        yield database


@pytest.fixture
def ms_driver() -> Iterator[DriverFunction]:
    """A function that creates a `TopologyTestDriver` from SQL, with the same parameters. All of
    them are closed after the test."""
    from millstream.testing import TopologyTestDriver

    with ExitStack() as opened:

        def create(sql: str, /, **options: Any) -> TopologyTestDriver:
            return opened.enter_context(TopologyTestDriver(sql, **options))

        yield create
