"""Rows behind a name that DuckDB has bound."""

from __future__ import annotations

import pyarrow as pa


class ArrowRows:
    """The object that DuckDB binds a name to. DuckDB requests its rows at each run, so they may be
    exchanged for others of the same schema, and assumes a single row when it chooses a join order.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)
