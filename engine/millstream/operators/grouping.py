"""The names that the texts of one aggregation are made from."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.model.batch import DIFF, PART, SEQ
from millstream.model.schema import WindowKind
from millstream.operators.accumulators import Accumulator, state_columns
from millstream.operators.program import StateTable
from millstream.operators.relation import quoted
from millstream.operators.sql import identifier
from millstream.plan.nodes import Aggregate

P, SQ, DF = (identifier(name) for name in (PART, SEQ, DIFF))
START, END = '"WINDOWSTART"', '"WINDOWEND"'


@dataclass(frozen=True, slots=True)
class Plan:
    """The names that the texts of one aggregation are made from. `keys`: quoted key columns, those
    of the state table's primary key; `carried`: WINDOWEND, which the start determines."""

    node: Aggregate
    label: str
    items: tuple[Accumulator, ...]
    keys: tuple[str, ...]
    carried: tuple[str, ...]
    table: StateTable
    undo: bool
    old: bool

    @property
    def sliding(self) -> bool:
        """Whether rows may be there before their window was."""
        return self.node.window is not None and self.node.window.kind is WindowKind.SLIDING

    @property
    def states(self) -> tuple[str, ...]:
        """The quoted state columns."""
        return quoted(name for name, _ in state_columns(self.items))

    @property
    def columns(self) -> tuple[str, ...]:
        """Quoted key and carried columns."""
        return (*self.keys, *self.carried)

    @property
    def partition(self) -> str:
        """PARTITION BY or GROUP BY of a group."""
        return ", ".join(f"b.{name}" for name in (P, *self.columns))

    @property
    def order(self) -> str:
        """The order of the rows of a group: removed rows come before inserted ones."""
        return f"b.{SQ}, b.{DF}" if self.undo else f"b.{SQ}"
