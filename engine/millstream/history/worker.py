"""Runs a task in a foreign worker process: table rows in, table rows out.

The input is a row that identifies the task, followed by its cells. The output is cells for other
tasks, outputs, problems, and, at the end of a failed task, its error.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any
from zipimport import zipimporter

import pyarrow as pa

from millstream.formats.ipc import pack, unpack
from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.function import Catalogue
from millstream.history.exchange import Cell
from millstream.history.reading import Source
from millstream.history.stage import Stage
from millstream.history.task import Produced, Superseded
from millstream.history.workspace import Workspace, lasting, of_spark
from millstream.log.log import Appended
from millstream.model.errors import KINDS, MillstreamError, UnavailableError
from millstream.model.event_time import NEVER
from millstream.model.problem import Problem

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("moment", pa.int64()),
        pa.field("sender", pa.int32()),
        pa.field("number", pa.int64()),
        pa.field("count", pa.int64()),
        pa.field("content", pa.binary()),
    ]
)
START, PROBLEM, FAILURE, SUPERSEDED = "", "$problem", "$failure", "$superseded"
"""Values instead of a topic: the first row of a task (which sorts before all others), an invalid
row, the error that ended a task, the start of a snapshot."""
IN_ORDER = ("moment", "topic", "sender", "number")
"""The sort columns of a task's rows."""


@dataclass(frozen=True, slots=True)
class Work:
    """The description of a worker's task: a stage, the source of its input, which topics go to
    other stages, and user functions."""

    stage: Stage
    source: Source
    inner: frozenset[str]
    functions: Catalogue
    """The user functions."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task of these rows (`SCHEMA`), in order. A fault that a retry might fix is
        raised, any other one is returned as a row."""
        rows = _rows(batches)
        first = next(rows)
        partition = int(first["partition"])
        count = 0
        passed: list[pa.RecordBatch] = []
        cells = self._cells(rows, passed)
        try:
            with self._workspace() as workspace:
                made = self.stage.run(partition, cells, self.source, workspace)
                for number, item in enumerate(made):
                    yield self._row(item, partition, number)
                    count = number + 1
            for _ in cells:
                pass
        except UnavailableError:
            raise
        except MillstreamError as error:
            yield _special(FAILURE, partition, count, failure_text(error))
        yield from passed
        if of_spark() is not None:
            _make_lasting()
            _forget_archives()

    def _workspace(self) -> AbstractContextManager[Workspace]:
        builtin, own = builtin_catalogue(), self.functions
        limit = self.stage.kind.memory_limit
        if not (own.scalar or own.aggregate or own.table):
            return nullcontext(lasting(limit))
        known = Catalogue(
            builtin.scalar | own.scalar,
            builtin.aggregate | own.aggregate,
            builtin.table | own.table,
        )
        return closing(Workspace(known, limit, of_spark()))

    def _cells(
        self, rows: Iterator[dict[str, Any]], passed: list[pa.RecordBatch]
    ) -> Iterator[Cell]:
        """The cells among rows; other output of earlier stages is put into `passed`."""
        for row in rows:
            if row["topic"] in self.inner:
                row.pop("count")
                yield Cell(**row)
            else:
                passed.append(pa.RecordBatch.from_pylist([row], schema=SCHEMA))

    def _row(self, item: Produced, sender: int, number: int) -> pa.RecordBatch:
        if isinstance(item, Problem):
            return _special(PROBLEM, sender, number, problem_text(item))
        if isinstance(item, Superseded):
            return _special(SUPERSEDED, sender, number, json.dumps(asdict(item)))
        moment, content = NEVER, None
        if item.topic in self.inner:
            (content,) = item.batch["value"].to_pylist()
            (moment,) = item.batch["timestamp"].to_pylist()
        else:
            content = pack(item.batch)
        return _one(item.topic, item.partition, moment, sender, number, item.count, content)


@cache
def _make_lasting() -> None:
    """Exclude everything loaded by now from garbage collection: after each task of a worker,
    PySpark runs a full collection."""
    gc.collect()
    gc.freeze()


def _forget_archives() -> None:
    """Close all archives of modules: before each task, PySpark makes Python read open ones again,
    its own among them. An import from one opens it again."""
    for path, finder in tuple(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


def starting(partition: int) -> dict[str, Any]:
    """The first row of a task."""
    return dict(zip(SCHEMA.names, (START, partition, NEVER, -1, -1, 0, None), strict=True))


def own_functions(functions: Catalogue) -> Catalogue:
    """The user functions of a catalogue."""
    builtin = builtin_catalogue()
    return Catalogue(
        {name: f for name, f in functions.scalar.items() if builtin.scalar.get(name) is not f},
        {
            name: f
            for name, f in functions.aggregate.items()
            if builtin.aggregate.get(name) is not f
        },
        {name: f for name, f in functions.table.items() if builtin.table.get(name) is not f},
    )


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def _one(*values: object) -> pa.RecordBatch:
    arrays = [pa.array([value], kind.type) for value, kind in zip(values, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _special(kind: str, sender: int, number: int, text: str) -> pa.RecordBatch:
    return _one(kind, sender, NEVER, sender, number, 0, text.encode())


def problem_text(problem: Problem) -> str:
    """A problem as JSON."""
    return json.dumps(
        asdict(problem), default=lambda value: value.hex() if isinstance(value, bytes) else None
    )


def failure_text(error: MillstreamError) -> str:
    """An error as JSON."""
    said = {"message": error.message, "detail": error.detail, "hint": error.hint}
    return json.dumps({"kind": type(error).__name__, "code": error.code, **said})


def failure(text: bytes) -> MillstreamError:
    """The error of a text of `failure_text`, with its original class."""
    said = json.loads(text)
    kinds = {kind.__name__: kind for kind in KINDS}
    return kinds.get(said.pop("kind"), MillstreamError)(**said)


def produced(topic: str, partition: int, count: int, content: bytes) -> Produced:
    """The content of an output row; raises the error that ended its task."""
    if topic == FAILURE:
        raise failure(content)
    if topic == PROBLEM:
        values = json.loads(content)
        for name in ("raw_key", "raw_value"):
            values[name] = None if values[name] is None else bytes.fromhex(values[name])
        return Problem(**{**values, "others": tuple(values["others"])})
    if topic == SUPERSEDED:
        return Superseded(**json.loads(content))
    batch = unpack(content)
    return Appended(topic, partition, batch, count, batch.nbytes)
