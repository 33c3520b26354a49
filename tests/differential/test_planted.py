"""Faults planted in compiled programs: the comparison must find every one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from millstream.executor import executor
from millstream.operators.compile import compile_subtopology
from millstream.operators.program import Program, Sql, Step
from tests.differential.check import check, settled
from tests.differential.describe import Case
from tests.differential.generator import case

SEEDS = 40
"""Within so many seeds a fault has to show."""
FAULTS: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "a row at the end of grace is late too soon": (
        "tumbling",
        lambda text: text.replace(' <= "$time" -', ' < "$time" -'),
    ),
    "a join sees the table as it is after the row": (
        "stream_table",
        lambda text: text.replace('l."$seq" > r."$seq"', 'l."$seq" > r."$seq" - 3'),
    ),
    "an aggregate forgets its state": (
        "group",
        lambda text: text.replace('s."$part" = b."$part"', 's."$part" = b."$part" + 1'),
    ),
    "a new sliding window begins without rows of earlier runs": (
        "sliding",
        lambda text: text.replace('>= (SELECT min("$rowtime")', '> (SELECT max("$rowtime")'),
    ),
    "a comparison with NULL is not false": (
        "project",
        lambda text: text.replace(", FALSE)", ", TRUE)"),
    ),
}


def changed(program: Program, fault: Callable[[str], str]) -> Program:
    """The program with its statements changed."""

    def step(one: Step) -> Step:
        return replace(one, text=fault(one.text)) if isinstance(one, Sql) else one

    return replace(
        program,
        steps=tuple(map(step, program.steps)),
        exact=tuple(map(step, program.exact)),
    )


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, fault = FAULTS[name]

    def faulty(*arguments: Any, **named: Any) -> Program:
        return changed(compile_subtopology(*arguments, **named), fault)

    monkeypatch.setattr(executor, "compile_subtopology", faulty)
    seed = next(seed for seed in range(SEEDS) if "expected" in check(case(seed, kind)))
    monkeypatch.undo()
    assert check(case(seed, kind)) == ""


def test_a_fault_is_found_in_a_chain_of_cached_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    _, fault = FAULTS["an aggregate forgets its state"]

    def faulty(*arguments: Any, **named: Any) -> Program:
        return changed(compile_subtopology(*arguments, **named), fault)

    def chain(seed: int) -> Case:
        made = case(seed, "chain")
        return replace(made, running=replace(made.running, cached=True))

    monkeypatch.setattr(executor, "compile_subtopology", faulty)
    cached = (chain(seed) for seed in range(SEEDS))
    found = next(made for made in cached if settled(made) is not None and "expected" in check(made))
    monkeypatch.undo()
    assert not check(found)
