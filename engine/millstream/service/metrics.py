"""What every query has done and how far it is: one row for each of its sub-topologies."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from millstream.runtime.spec import QueryState, QueryStatus, StageStatus
from millstream.service.engine import Engine

METRICS = pa.schema(
    [
        ("query", pa.string()),
        ("type", pa.string()),
        ("state", pa.string()),
        ("error", pa.string()),
        ("sub_topology", pa.int32()),
        ("inputs", pa.list_(pa.string())),
        ("outputs", pa.list_(pa.string())),
        ("tasks", pa.int32()),
        ("records_in", pa.int64()),
        ("records_out", pa.int64()),
        ("changes", pa.int64()),
        ("late", pa.int64()),
        ("problems", pa.int64()),
        ("lag", pa.int64()),
        ("to_restore", pa.int64()),
        ("runs", pa.int64()),
        ("commits", pa.int64()),
        ("reopened", pa.int64()),
        ("commit_wait_ms", pa.int64()),
        ("commit_wait_max_ms", pa.int64()),
    ]
)


def metrics(engine: Engine) -> pa.Table:
    """See `Database.metrics`."""
    rows = [_row(status, stage) for status in engine.statuses() for stage in status.stages]
    rows += [_failed(query_id, error) for query_id, error in engine.failed.items()]
    return pa.Table.from_pylist(rows, schema=METRICS)


def _row(status: QueryStatus, stage: StageStatus) -> dict[str, Any]:
    whole, own = status.metrics, stage.metrics
    return {
        "query": status.query_id,
        "type": "PUSH" if status.transient else "PERSISTENT",
        "state": status.state.value,
        "error": status.error or None,
        "sub_topology": stage.index,
        "inputs": stage.inputs,
        "outputs": stage.outputs,
        "tasks": stage.tasks,
        "records_in": own.records_in,
        "records_out": own.records_out,
        "changes": own.changes,
        "late": own.late,
        "problems": own.problems,
        "lag": None if stage.lag < 0 else stage.lag,
        "to_restore": stage.to_restore,
        "runs": whole.runs,
        "commits": whole.commits,
        "reopened": whole.reopened,
        "commit_wait_ms": whole.commit_wait_ms,
        "commit_wait_max_ms": whole.commit_wait_max_ms,
    }


def _failed(query_id: str, error: str) -> dict[str, Any]:
    """A query that could not even be started when the file was opened."""
    return {
        "query": query_id,
        "type": "PERSISTENT",
        "state": QueryState.ERROR.value,
        "error": error,
    }
