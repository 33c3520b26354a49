"""Pull queries by key: prepared once for all keys, and batched if they arrive together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from millstream.catalog.catalog import Catalog
from millstream.cluster.cluster import Cluster
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.schema import Schema
from millstream.query.conditions import Value
from millstream.query.keyed import key_asked
from millstream.query.session import Session
from millstream.scripts.text import ParsedStatement, parameters_for, parse_text
from millstream.service.engine import Engine
from millstream.service.execution import check_running
from millstream.statements.keyed import (
    KeyedPull,
    RowIndexes,
    keyed_pull,
    keyed_rows,
    keyed_table,
)
from millstream_server.auth.guard import Guard
from millstream_server.auth.principal import Principal
from millstream_server.failures import RefusedError, refusal
from millstream_server.requests import Asked
from millstream_server.results.values import texts_of

SHAPES_MAX = 1_000
"""The most prepared queries; beyond that all are evicted."""
TOGETHER_MAX = 200
GATHER_EACH_S = 0.000_2
GATHER_MAX_S = 0.005
"""How long a batch waits for more requests: a time per request of the last batch, and a maximum. A
statement costs more than its keys, but a single client never waits. The number of requests that
arrive in the time per request must be below 1 at the intended rates: with half a millisecond, 2,000
requests a second always waited for the maximum."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The prepared query of texts with a common beginning. `pull` resolves to None if they are not
    pull queries by key, and all requests wait until it is resolved. `heads` caches the start of
    responses in each media type."""

    catalog: Catalog
    pull: asyncio.Future[KeyedPull | None]
    heads: dict[str, bytes] = field(default_factory=dict)

    def is_current(self, engine: Engine) -> bool:
        """Whether this is still valid."""
        if engine.catalog is not self.catalog:
            return False
        if not self.pull.done():
            return True
        if self.pull.cancelled() or self.pull.exception() is not None:
            return False
        pull = self.pull.result()
        return pull is None or pull.is_current(engine.cluster)


Batch: TypeAlias = Sequence[str] | pa.Table
"""The rows of one batch of requests: as JSON arrays, or as a table."""
Answer: TypeAlias = tuple[Batch, Sequence[int]]
"""Some rows of a batch, by their indexes."""


@dataclass(frozen=True, slots=True)
class Found:
    """A result."""

    schema: Schema
    heads: dict[str, bytes]
    rows: list[str] | pa.Table


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request for a key."""

    parsed: ParsedStatement
    key: Value
    principal: Principal
    session: Session
    answer: asyncio.Future[Answer] = field(default_factory=asyncio.Future)


Together: TypeAlias = tuple[KeyedPull, bool]
"""The key of a batch: requests for one query, all as JSON or (True) all as a table."""


class Lookups:
    """Used only in the event loop's thread."""

    def __init__(
        self,
        engine: Engine,
        guard: Guard,
        threads: int,
        counted: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`counted`: counts a running query; raises RefusedError at the limit."""
        self._counted = counted
        self._engine = engine
        self._guard = guard
        self._threads = ThreadPoolExecutor(threads, "millstream-lookup")
        self._known: dict[str, Shape] = {}
        self._waiting: dict[Together, list[Waiting]] = {}
        self._answering: set[asyncio.Future[None]] = set()

    async def find(
        self, asked: Asked, principal: Principal, session: Session, *, as_table: bool
    ) -> Found | None:
        """The result of a pull query by key; None for any other statement, including an invalid
        one, and while the rows cannot be read. Raises RefusedError if it is not allowed."""
        text = asked.sql
        split = key_asked(text, asked.parameters)
        if split is None:
            return None
        begins, key = split
        shape = self._shape(begins, asked)
        known = shape.pull
        pull = known.result() if known.done() else await asyncio.shield(known)
        if pull is None:
            return None
        asking = Waiting(ParsedStatement(pull.statement, text, text), key, principal, session)
        with self._counted():
            try:
                batch, places = await self._answered((pull, as_table), asking)
            except UnavailableError:
                return None  # As any other statement it waits until the state is restored.
        return Found(pull.schema, shape.heads, _chosen(batch, places))

    def _shape(self, begins: str, asked: Asked) -> Shape:
        known = self._known.get(begins)
        if known is not None and known.is_current(self._engine):
            return known
        if len(self._known) >= SHAPES_MAX:
            self._known.clear()
        loop = asyncio.get_running_loop()
        pull = loop.run_in_executor(self._threads, self._learned, asked)
        found = self._known[begins] = Shape(self._engine.catalog, pull)
        return found

    def _learned(self, asked: Asked) -> KeyedPull | None:
        try:
            parameters = parameters_for(asked.sql, asked.parameters)
            (parsed,) = parse_text(asked.sql, test_statements=False, parameters=parameters)
            return keyed_pull(parsed.statement, parsed.script, self._engine.cluster)
        except MillstreamError:
            return None

    async def _answered(self, together: Together, asking: Waiting) -> Answer:
        others = self._waiting.get(together)
        if others is not None:
            others.append(asking)
        else:
            self._waiting[together] = [asking]
            self._answering.add(task := asyncio.ensure_future(self._answer(together)))
            task.add_done_callback(self._answering.discard)
        return await asking.answer

    async def _answer(self, together: Together) -> None:
        """Process batches until no request waits: requests that arrive meanwhile form the next
        batch."""
        loop = asyncio.get_running_loop()
        while waiting := self._waiting[together]:
            taken, self._waiting[together] = waiting[:TOGETHER_MAX], waiting[TOGETHER_MAX:]
            answers: Sequence[Answer | Exception]
            try:
                answers = await loop.run_in_executor(self._threads, self._answers, together, taken)
            except Exception as error:
                answers = [error] * len(taken)
            for one, answer in zip(taken, answers, strict=True):
                if not one.answer.done():
                    _settle(one.answer, answer)
            await asyncio.sleep(min(GATHER_MAX_S, GATHER_EACH_S * len(taken)))
        del self._waiting[together]

    def _answers(self, together: Together, waiting: Sequence[Waiting]) -> list[Answer | Exception]:
        """The results of a batch; in a thread, because it may block."""
        refused = [self._refused(one) for one in waiting]
        asking = [one for one, error in zip(waiting, refused, strict=True) if error is None]
        each = iter(self._found(together, asking))
        return [next(each) if error is None else error for error in refused]

    def _found(self, together: Together, asking: Sequence[Waiting]) -> Sequence[Answer | Exception]:
        """A failing batch is split in half, so that a failing row affects only the requests for
        it."""
        if not asking:
            return []
        try:
            check_running(self._engine)
            batch, places = _rows(together, [one.key for one in asking], self._engine.cluster)
        except UnavailableError as error:
            return [error] * len(asking)
        except Exception as error:
            if len(asking) > 1:
                halves = asking[: len(asking) // 2], asking[len(asking) // 2 :]
                return [answer for half in halves for answer in self._found(together, half)]
            if isinstance(error, MillstreamError):
                return [refusal(error, asking[0].parsed.text)]
            return [error]
        return [(batch, found) for found in places]

    def _refused(self, asking: Waiting) -> RefusedError | None:
        try:
            self._guard.authorise(asking.principal, asking.parsed, asking.session)
            self._guard.record(asking.principal, asking.parsed)
        except RefusedError as error:
            return error
        return None

    def close(self) -> None:
        """Accept no more requests."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _rows(together: Together, keys: Sequence[Value], cluster: Cluster) -> tuple[Batch, RowIndexes]:
    pull, as_table = together
    if as_table:
        return keyed_table(pull, keys, cluster)
    rows, places = keyed_rows(pull, keys, cluster)
    return texts_of(rows, pull.schema), places


def _chosen(batch: Batch, places: Sequence[int]) -> list[str] | pa.Table:
    if isinstance(batch, pa.Table):
        return batch.take(pa.array(places, pa.int64()))
    return [batch[place] for place in places]


def _settle(future: asyncio.Future[Answer], answer: Answer | Exception) -> None:
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
