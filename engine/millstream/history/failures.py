"""What Spark's errors mean to the user of a query."""

from __future__ import annotations

from millstream.model.errors import MillstreamError, UnavailableError

_LOST = frozenset(
    {"Py4JNetworkError", "Py4JError", "ConnectionRefusedError", "ConnectionResetError", "EOFError"}
)
"""What asking a JVM raises that has ended meanwhile."""
_CANCELLED = ("SPARK_JOB_CANCELLED", "cancelled part of cancelled job group")


def translated(error: Exception, query_id: str) -> MillstreamError:
    """An error of a job as one of ours; those of ours as they are."""
    if isinstance(error, MillstreamError):
        return error
    text = str(error)
    if any(sign in text for sign in _CANCELLED):
        return UnavailableError(f"Query {query_id} was cancelled on Spark", code="E-CANCELLED")
    if type(error).__name__ in _LOST:
        return UnavailableError(
            f"Query {query_id} has lost its Spark session: the JVM has ended",
            detail=text,
            hint="Run it again; a new session is started.",
            code="E-SPARK",
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if "millstream.model.errors." in line]
    return UnavailableError(
        f"Query {query_id} failed on Spark",
        detail=(ours or lines or [type(error).__name__])[-1 if ours else 0],
        code="E-SPARK",
    )
