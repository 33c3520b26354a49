"""The problems that a run reports to the processing log, and the error that stops a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millstream.executor.decode import Decoder
from millstream.executor.made_rows import SKIPPED, users_traceback
from millstream.executor.processors import ProcessingError
from millstream.model.batch import PART, SEQ
from millstream.model.errors import CorruptionError, MillstreamError, RecordError, UnavailableError
from millstream.model.problem import LATE, Problem
from millstream.model.row_text import row_text
from millstream.topology.topology import SubTopology

_FATAL = {"TIMESTAMP": "Fatal user code error in TimestampExtractor callback for record"}
"""The dialect's text for a query that ends because it must not skip a record of some kind."""


PROCESSOR = "PROCESSOR"
"""The kind of a record for which a processor has raised an exception."""


def failed_rows(
    relations: Mapping[str, pa.Table], names: Sequence[str], taken: Decoder, sub: SubTopology
) -> tuple[Problem, ...]:
    """A problem for each expression and row that failed, with the record it came from. A row
    without a message belongs to the problem before it."""
    result: list[Problem] = []
    for name in names:
        for row in relations[name].to_pylist():
            topic, offset, text = _origin(taken, sub, row[SEQ])
            if row["message"] is None:
                first = result.pop()
                others = (*first.others, offset)
                result.append(replace(first, others=others, count=len(others) + 1))
                continue
            kind = PROCESSOR if row.get(SKIPPED) else "EXPRESSION"
            problem = Problem(kind, row["message"], topic, row[PART], offset, row=text)
            result.append(problem)
    return tuple(result)


def _origin(taken: Decoder, sub: SubTopology, seq: int) -> tuple[str, int, str | None]:
    """Topic and offset of the record with this number, and its row."""
    for source, table, offsets in zip(sub.inputs, taken.tables, taken.offsets, strict=True):
        at = pc.index(table[SEQ], seq).as_py() if seq >= 0 else -1
        if at >= 0:
            return source.topic, offsets[at].as_py(), row_text(table, at)
    return sub.inputs[0].topic, -1, None


def late_rows(
    relations: Mapping[str, pa.Table], names: Sequence[str], sub: SubTopology
) -> tuple[Problem, ...]:
    """One problem for each partition and run that had rows too late for their window."""
    result = []
    for name in names:
        for row in relations[name].select([PART, "late"]).to_pylist():
            if row["late"]:
                message = f"{row['late']} row(s) came after their window had closed"
                topic = sub.inputs[0].topic
                result.append(Problem(LATE, message, topic, row[PART], count=row["late"]))
    return tuple(result)


def refuse_fatal(problems: Sequence[Problem], kinds: frozenset[str]) -> None:
    """Raise RecordError for the first problem of one of these kinds."""
    found = next((problem for problem in problems if problem.kind in kinds), None)
    if found is not None:
        what = _FATAL.get(found.kind, "Cannot go on behind the record")
        raise RecordError(
            f"{what} at offset {found.offset} of topic {found.topic}, partition "
            f"{found.partition}: {found.message}",
            hint="The query is set to stop at such a record. Correct the setting with UNSET and "
            "create the query again, or DROP it.",
        )


def processor_failed(error: ProcessingError, taken: Decoder, sub: SubTopology) -> RecordError:
    """The error of a query whose processor has raised an exception."""
    topic, offset, row = _origin(taken, sub, error.seq)
    why = error.__cause__
    assert why is not None
    where = f"The record: offset {offset} of topic {topic}, partition {error.part}: {row}"
    if error.seq < 0:
        where = f"No record is the cause; partition {error.part}"
    return RecordError(
        f"Processor {error.where} raised {type(why).__name__}: {why}",
        detail=f"{where}\n{users_traceback(why)}",
        hint="Correct the processor and open the database with it: the query goes on with this"
        " record. Or DROP it.",
        code="E-PROCESSOR",
    )


def lacks_memory(error: BaseException) -> bool:
    """Whether an error is, or is caused by, DuckDB's out-of-memory error."""
    origin = error.__cause__
    return isinstance(error, duckdb.OutOfMemoryException) or (
        origin is not None and lacks_memory(origin)
    )


def stopped(error: duckdb.Error, sub: SubTopology) -> MillstreamError:
    """The error of the query when the exact program fails too."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    what = f"sub-topology {sub.index} could not process its input"
    if "Corrupt database file" in text:
        return CorruptionError(
            what,
            detail=text,
            hint="Close the database and delete its .state file: the state is rebuilt from the "
            "changelogs.",
        )
    if isinstance(error, duckdb.OutOfMemoryException | duckdb.IOException):
        return UnavailableError(what, detail=text, hint="free memory or disk space")
    if isinstance(error, duckdb.OutOfRangeException | duckdb.ConversionException):
        return RecordError(f"Numeric field overflow: {what}", detail=text)
    return MillstreamError(what, detail=text)
