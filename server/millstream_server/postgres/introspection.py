"""The database behind queries about the database: PostgreSQL's catalog over what a client may see.

It is a DuckDB database in memory, which holds nothing but descriptions and has no way out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import duckdb
import pyarrow as pa
from sqlglot import exp

from millstream.catalog.source import Source
from millstream.operators.sql import identifier
from millstream_parser.parameters import Value
from millstream_server.postgres.catalog_queries import printed, relation_of, tables_of
from millstream_server.postgres.refusals import NOT_SUPPORTED, PgError
from millstream_server.postgres.relations import Row, fixed_rows, relations, rows
from millstream_server.postgres.spelling import Spelling
from millstream_server.postgres.system_functions import OF_FUNCTIONS, macros
from millstream_server.postgres.views import VIEWS

ROWS_MAX = 100_000
MEMORY = "64MB"
_NAMES = re.compile(r"\bpg_[a-z_]+\b")


class Introspection:
    """The catalog as one client sees it. Used by one thread at a time; the caller closes it.
    `whole`: whether all relations that were created have their rows."""

    def __init__(
        self, sources: Sequence[Source], spelling: Spelling, user: str, settings: Mapping[str, str]
    ) -> None:
        self._database = duckdb.connect(
            ":memory:",
            config={
                "threads": 1,
                "memory_limit": MEMORY,
                "temp_directory": "",
                "integer_division": True,
            },
        )
        self.whole = True
        self._settings = settings
        self._rows: dict[str, list[Row]] = {}
        for relation, row in (*fixed_rows(user), *rows(sources, spelling)):
            self._rows.setdefault(relation, []).append(row)
        self._rows["pg_settings"] = [
            {"name": name, "setting": value} for name, value in settings.items()
        ]
        self._made: set[str] = set()
        for name in OF_FUNCTIONS:
            self._make(name)
        self._database.execute(";".join(macros()))
        self._database.execute("SET enable_external_access = false")
        self._database.execute("SET lock_configuration = true")

    def _make_all(self, names: Iterable[str]) -> None:
        self.whole = False
        for name in names:
            self._make(name)
        # An interruption may leave a relation without its rows.
        self.whole = True

    def _make(self, name: str) -> None:
        """Create a relation, and what it is a view of: most are never asked for."""
        if name in self._made:
            return
        self._made.add(name)
        if name in VIEWS:
            for other in set(_NAMES.findall(VIEWS[name])) & set(relations()):
                self._make(other)
            self._database.execute(f'CREATE VIEW "{name}" AS {VIEWS[name]}')
            return
        self._database.execute(f'CREATE TABLE "{name}" ({relations()[name]})')
        if some := self._rows.get(name):
            self._fill(name, some)

    def _fill(self, name: str, some: Sequence[Row]) -> None:
        shape = self._database.sql(f'SELECT * FROM "{name}"').to_arrow_table().schema
        columns = [pa.array([row.get(field.name) for row in some], field.type) for field in shape]
        self._database.register("given", pa.Table.from_arrays(columns, schema=shape))
        self._database.execute(f'INSERT INTO "{name}" SELECT * FROM given')
        self._database.unregister("given")

    def answer(self, tree: exp.Expr, values: Sequence[Value] = ()) -> pa.Table:
        """The rows of a query. Raises PgError."""
        text = printed(tree, values, self._settings)
        try:
            self._make_all({relation_of(table) for table in tables_of(tree)})
            table = _with_texts(self._database.sql(text)).to_arrow_table()
        except duckdb.InterruptException:
            raise PgError("The query about the catalog was ended.", code="57014") from None
        except (duckdb.Error, RecursionError) as failure:
            first = str(failure).splitlines()[0]
            raise PgError(
                "The query about the catalog cannot be answered.", detail=first, code=NOT_SUPPORTED
            ) from failure
        if table.num_rows > ROWS_MAX:
            raise PgError(f"The query about the catalog has over {ROWS_MAX} rows.", code="54000")
        return table

    def interrupt(self) -> None:
        """End a query, from any thread."""
        self._database.interrupt()

    def close(self) -> None:
        """Release the memory."""
        self._database.close()


def _with_texts(found: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Intervals as texts: our types have none."""
    kinds = [str(kind) for kind in found.types]
    if "INTERVAL" not in kinds:
        return found
    columns = (
        f"CAST(#{at} AS {'VARCHAR' if kind == 'INTERVAL' else kind}) AS {identifier(name)}"
        for at, (kind, name) in enumerate(zip(kinds, found.columns, strict=True), 1)
    )
    return found.project(", ".join(columns))
