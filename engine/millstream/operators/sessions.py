"""Session windows."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.model.errors import StatementError
from millstream.operators.accumulators import Accumulator
from millstream.operators.relation import Part, Setting
from millstream.plan.nodes import Aggregate


def compile_sessions(
    node: Aggregate,
    part: Part,
    items: Sequence[Accumulator],
    label: str,
    setting: Setting,
    *,
    old: bool,
) -> Part:
    """Not there yet."""
    raise StatementError("session windows are not supported yet")
