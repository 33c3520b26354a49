"""Translates Spark's errors for the user of a query."""

from __future__ import annotations

import re

from millstream.model.errors import MillstreamError, UnavailableError

_LOST = frozenset(
    {"Py4JNetworkError", "Py4JError", "ConnectionRefusedError", "ConnectionResetError", "EOFError"}
)
"""The errors of a call to a JVM that has ended meanwhile."""
_CANCELLED = ("SPARK_JOB_CANCELLED", "cancelled part of cancelled job group")
_PYTHON = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)(?:: .+)?$", re.MULTILINE)
"""The last line of a Python error, which Java also writes at the beginning of a line."""
_TASK = re.compile(r"most recent failure: Lost task [^:]*: (?:[\w.]+: )?(.+)")
_JAVA = re.compile(r"^(?:: |Caused by: )[\w.$]+(?:Error|Exception): (.+)", re.MULTILINE)
_SAYS_NOTHING = "Exception thrown in awaitResult"


def translated(error: Exception, query_id: str) -> MillstreamError:
    """A job's error as one of ours; our own errors unchanged."""
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
    return UnavailableError(
        f"Query {query_id} failed on Spark", detail=telling(error), hint=_hint(text), code="E-SPARK"
    )


def telling(error: BaseException) -> str:
    """The line of an error that states the cause; most others are Java's stack trace."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if "millstream.model.errors." in line]
    if ours:
        return ours[-1]
    of_python = _PYTHON.findall(text)
    if of_python and "Traceback" in text:
        return str(of_python[-1])
    found = [
        said for said in _TASK.findall(text) + _JAVA.findall(text) if _SAYS_NOTHING not in said
    ]
    return str((found or lines or [type(error).__name__])[0])


def _hint(text: str) -> str:
    if "No module named 'millstream" in text:
        return (
            "Install Millstream, with the same minor version of Python, for the workers of the"
            " cluster, or say with spark.pyspark.python which Python has it."
        )
    if "PYTHON_VERSION_MISMATCH" in text:
        return "Workers need the same minor version of Python: set spark.pyspark.python."
    if "Python worker exited unexpectedly" in text:
        return (
            "It was killed, perhaps for want of memory: give the machine, or"
            " spark.executor.memoryOverhead, more of it, tasks less (history_memory_limit), or the"
            " topic more partitions."
        )
    return ""
