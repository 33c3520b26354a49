"""What the programs of the golden queries cost as text, and what they would as sqlglot trees.

    python -m tests.plans.trees

A tree costs at least one making of each node and one printing. The first is measured as a copy of
the finished tree, which makes each node once, in one go, without looking anything up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp, parse_one

from millstream.functions.catalogue import builtin_catalogue
from millstream.operators.compile import compile_subtopology
from millstream.operators.program import Program, Repeat, Sql, Step
from millstream.topology.split import split
from millstream.topology.topology import SubTopology
from tests.plans.test_golden import FOLDER, PARTITIONS, last_query, sections

ROUNDS = 20


def texts(steps: Sequence[Step]) -> Iterator[str]:
    """The SQL of steps, in order."""
    for step in steps:
        match step:
            case Sql(_, text):
                yield text
            case Repeat(_, inner):
                yield from texts(inner)


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one of several rounds."""
    started = time.process_time()
    for _ in range(ROUNDS):
        work()
    return (time.process_time() - started) / ROUNDS


def main() -> None:
    """Run the command."""
    catalogue = builtin_catalogue()
    subs: list[SubTopology] = [
        sub
        for path in sorted(FOLDER.glob("*.txt"))
        for planned in [last_query(sections(path.read_text())[0])]
        for sub in split(planned.node, "Q", partitions=lambda _: PARTITIONS).subtopologies
    ]

    def compiled() -> list[Program]:
        return [compile_subtopology(sub, catalogue, headers=False, cached=False) for sub in subs]

    programs = compiled()
    statements = [
        text for item in programs for steps in (item.steps, item.exact) for text in texts(steps)
    ]
    trees: list[exp.Expression] = [parse_one(text, dialect="duckdb") for text in statements]
    rows = {
        "compile, as text": seconds(compiled),
        "make the nodes": seconds(lambda: [tree.copy() for tree in trees]),
        "print the trees": seconds(lambda: [t.sql(dialect="duckdb", copy=False) for t in trees]),
    }
    nodes = sum(sum(1 for _ in tree.walk()) for tree in trees)
    print(f"{len(programs)} programs, {len(statements)} statements, {nodes} nodes")
    for name, spent in rows.items():
        print(f"{name:<18} {spent * 1000 / len(programs):6.2f} ms a program")


if __name__ == "__main__":
    main()
