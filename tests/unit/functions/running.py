"""Runs an aggregate variant over rows in batches, the way a program does, for the tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from millstream.functions.function import AggregateVariant

Row = tuple[str, int, tuple[Any, ...]]
"""(key, diff, argument values)."""


class Running:
    """One aggregate over batches; keeps the stored states."""

    def __init__(
        self,
        variant: AggregateVariant,
        types: Sequence[str],
        result: str,
        constants: Sequence[Any] = (),
        table: bool = False,
    ) -> None:
        self.con = duckdb.connect()
        self.variant = variant
        self.types = list(types)
        self.constants = list(constants)
        self.names = {"t": result} | {f"t{i}": t for i, t in enumerate(types)}
        self.names |= {f"x{i}": f"x{i}" for i in range(len(types))} | {"d": "d", "w": "w"}
        self.names |= {f"s{i}": f"s{i}" for i in range(len(variant.state))}
        self.names |= {f"c{i}": self._literal(c) for i, c in enumerate(constants)}
        self.fold = (variant.undo_fold or variant.fold) if table else variant.fold
        self.state_types = [text.format(**self.names) for text in variant.state]
        columns = "".join(f", s{i} {t}" for i, t in enumerate(self.state_types))
        self.con.execute(f"CREATE TABLE st (k VARCHAR PRIMARY KEY{columns})")
        arguments = "".join(f", x{i} {t}" for i, t in enumerate(types))
        self.con.execute(f'CREATE TABLE b ("$seq" BIGINT, k VARCHAR, d TINYINT{arguments})')

    @staticmethod
    def _literal(value: Any) -> str:
        return str(value).upper() if isinstance(value, bool) else repr(value)

    def _load(self, rows: Sequence[Row]) -> None:
        self.con.execute("DELETE FROM b")
        marks = ", ".join("?" for _ in range(3 + len(self.types)))
        for seq, (key, diff, values) in enumerate(rows):
            self.con.execute(f"INSERT INTO b VALUES ({marks})", [seq, key, diff, *values])

    def batch(self, rows: Sequence[Row]) -> list[Any]:
        """The value after each row; the states are stored."""
        if not rows:
            return []
        self._load(rows)
        states = self._folded() if self.fold else self._windowed(self.variant.running)
        self.con.register("states", states)
        columns = ", ".join(f"s{i}" for i in range(len(self.state_types)))
        self.con.execute(
            f"INSERT OR REPLACE INTO st SELECT k, {columns} FROM states"
            ' QUALIFY row_number() OVER (PARTITION BY k ORDER BY "$seq" DESC) = 1'
        )
        return self._results("states", '"$seq"')

    def batch_grouped(self, rows: Sequence[Row]) -> dict[str, Any]:
        """The value per key after all rows, by the grouped templates; states are stored."""
        self._load(rows)
        assert self.variant.grouped
        columns = self._columns(self.variant.grouped)
        keys = ", ".join(["b.k", *(f"s{i}" for i in range(len(self.state_types)))])
        self.con.execute(
            f"INSERT OR REPLACE INTO st SELECT b.k, {columns} FROM b LEFT JOIN st USING (k)"
            f" GROUP BY {keys}"
        )
        return dict(zip(self._keys(), self._results("st", "k"), strict=True))

    def _keys(self) -> list[str]:
        return [row[0] for row in self.con.execute("SELECT k FROM st ORDER BY k").fetchall()]

    def _results(self, relation: str, order: str) -> list[Any]:
        text = self.variant.result.format(**self.names)
        rows = self.con.execute(f"SELECT {text} FROM {relation} ORDER BY {order}").fetchall()
        return [row[0] for row in rows]

    def _columns(self, templates: Sequence[str]) -> str:
        return ", ".join(
            f"CAST({text.format(**self.names)} AS {kind}) AS r{i}"
            for i, (text, kind) in enumerate(zip(templates, self.state_types, strict=True))
        )

    def _windowed(self, templates: Sequence[str]) -> pa.Table:
        text = (
            f'SELECT b."$seq", b.k, {self._columns(templates)} FROM b LEFT JOIN st USING (k)'
            ' WINDOW w AS (PARTITION BY k ORDER BY "$seq")'
        )
        try:
            table = self.con.sql(text).to_arrow_table()
        except duckdb.Error:
            if templates is self.variant.exact_running or not self.variant.exact_running:
                raise
            return self._windowed(self.variant.exact_running)
        names = ["$seq", "k", *(f"s{i}" for i in range(len(self.state_types)))]
        return table.rename_columns(names)

    def _folded(self) -> pa.Table:
        rows = self.con.sql(
            'SELECT *, dense_rank() OVER (ORDER BY k) - 1 AS g FROM b ORDER BY g, "$seq"'
        ).to_arrow_table()
        columns = ", ".join(f"s{i}" for i in range(len(self.state_types)))
        seeds = self.con.sql(
            f"SELECT {columns} FROM (SELECT DISTINCT k FROM b) LEFT JOIN st USING (k) ORDER BY k"
        ).to_arrow_table()
        states = self.fold(
            rows["g"].to_numpy().astype(np.int64),
            rows["d"].to_numpy(),
            tuple(rows[f"x{i}"].combine_chunks() for i in range(len(self.types))),
            tuple(seeds[f"s{i}"].combine_chunks() for i in range(len(self.state_types))),
            tuple(self.constants),
        )
        columns = {f"s{i}": state for i, state in enumerate(states)}
        return pa.table({"$seq": rows["$seq"], "k": rows["k"], **columns})
