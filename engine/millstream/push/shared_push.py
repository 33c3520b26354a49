"""One running push query, and all clients that share it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from millstream.log.log import Appended
from millstream.model.batch import DIFF, HEADERS, PART, ROWTIME, SEQ
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.schema import Schema, SourceKind
from millstream.plan.nodes import Deliver
from millstream.query.changes import null_deleted_values
from millstream.query.rendered_rows import RenderedRows
from millstream.query.results import Change, Stream
from millstream.topology.topology import Topology

BUFFER_BATCHES_MAX = 1024
_BOOKKEEPING = {PART, SEQ, ROWTIME, HEADERS}


@dataclass(slots=True, eq=False)
class SharedPushQuery:
    """A running push query with one or more clients.

    `root` and `properties`: what it runs. The first columns of its rows are those of `schema`,
    which clients get. `bytes_max`: the limit of each client's buffer. `shared`: further clients may
    join. A client that reads too slowly is disconnected; if it is the only one, the query ends.
    """

    query_id: str
    root: Deliver
    schema: Schema
    properties: Mapping[str, str]
    topology: Topology
    bytes_max: int
    shared: bool = False
    streams: tuple[Stream, ...] = ()
    rendered: RenderedRows = field(init=False)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _open: bool = True
    _left: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        # As large as the buffer of one client, for any number of clients.
        self.rendered = RenderedRows(self.bytes_max)

    def runs(self, root: Deliver, properties: Mapping[str, str]) -> bool:
        """Whether a query with this plan and these properties has the same rows. LIMIT is not part
        of `root.input`; it belongs to each client."""
        same = self.root.input == root.input
        return self.shared and same and self.properties == properties

    def join(self, stream: Stream) -> bool:
        """Send new rows to a client from now on. Returns False if the query has ended."""
        with self._lock:
            if self._open:
                self.streams = (*self.streams, stream)
            return self._open

    def leave(self, stream: Stream) -> bool:
        """Remove a client. Returns True once, after the last client: the caller then removes the
        query."""
        with self._lock:
            self._drop(stream)
            last = not self.streams and not self._left
            if last:
                self._open, self._left = False, True
            return last

    def _drop(self, stream: Stream) -> None:
        self.streams = tuple(one for one in self.streams if one is not stream)

    def hand_over(self, outputs: Sequence[Appended[pa.Table]], kind: SourceKind) -> None:
        """Put rows into the clients' buffers. An error that it raises stops the query, and reaches
        the client after the rows in its buffer."""
        with self._lock:
            for output in outputs:
                if not output.count:
                    continue
                rows = _for_clients(output.batch, self.schema, kind)
                rendered = self.rendered if len(self.streams) > 1 else None
                change = Change(rows, rendered, next(self._numbers))
                for stream in self.streams:
                    if not stream.closed:
                        self._put(stream, change)

    def _put(self, stream: Stream, change: Change) -> None:
        buffered = stream.buffered_bytes + change.rows.nbytes
        full = buffered > self.bytes_max and not stream.buffer.empty()
        if not full and stream.buffer.qsize() < BUFFER_BATCHES_MAX:
            stream.put(change)
            return
        error = UnavailableError(
            f"push query {stream.query_id} was ended: its client reads too slowly",
            hint="Read faster, or add a LIMIT or a filter.",
            code="E-SLOW-CONSUMER",
        )
        if len(self.streams) == 1:
            raise error
        self._drop(stream)
        stream.fail(error)

    def fail(self, error: Exception) -> None:
        """End all clients' streams with the error of the query."""
        with self._lock:
            self._open = False
            for stream in self.streams:
                stream.fail(
                    error
                    if isinstance(error, MillstreamError)
                    else MillstreamError(f"push query {stream.query_id} failed", detail=str(error))
                )


def _for_clients(rows: pa.Table, schema: Schema, kind: SourceKind) -> pa.Table:
    """The columns of the query under their names, and `$diff` if there are deletions. A deletion
    has only its key. Records of a stream without a value are dropped."""
    kept = rows.select([name for name in rows.column_names if name not in _BOOKKEEPING])
    change = kept[DIFF]
    kept = pa.table(kept.columns[: len(schema.columns)], names=list(schema.names))
    if pc.min(change).as_py() == 1:
        return kept
    if kind is SourceKind.STREAM:
        return kept.filter(pc.equal(change, 1))
    return null_deleted_values(kept, change, schema).append_column(DIFF, change)
