"""The figures of `make bench-instance`: what each one is, version 0.1's value and the goal.

`PROCESSES` groups the figures that one process measures, because they are about the same queries:
creating 1,000 of them takes minutes in version 0.1, and the table needs them once, not four times.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the measurements are. Times in seconds."""

    few: int = 100
    """Embedded queries, where 1,000 are not needed."""
    many: int = 1000
    shared: int = 50
    """Queries on Kafka."""
    settle: float = 5.0
    """The wait before an idle process is measured."""
    idle: float = 10.0
    """How long an idle process is measured."""
    limit: float = 300.0
    """After this time, no further query is created."""
    trickle: float = 60.0
    inserts: int = 200
    """Records of which the latency is measured."""
    events: int = 500_000
    """Nexmark events that the filters read; 92 % of them are bids."""
    filters: tuple[int, int] = (8, 64)
    moved: int = 2_000_000
    """Rows that move to another task."""
    tasks: tuple[int, int, int] = (8, 64, 256)


FULL = Scale()
SMALL = Scale(
    few=10,
    many=10,
    shared=10,
    settle=0.2,
    idle=0.5,
    trickle=2.0,
    inserts=20,
    events=5_000,
    filters=(2, 4),
    moved=2_000,
    tasks=(2, 4, 8),
)
LARGE = Scale(shared=500)
"""For the figures on Kafka."""
SCALES = {"full": FULL, "small": SMALL, "large": LARGE}


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table. `before` is the value of version 0.1, `-` where it was not measured.
    `title` may name fields of `Scale`."""

    name: str
    title: str
    before: str
    goal: str


@dataclass(frozen=True, slots=True)
class Process:
    """The figures that one process measures, in the order in which it measures them."""

    name: str
    figures: tuple[Figure, ...]
    kafka: bool = False


PROCESSES = (
    Process(
        "embedded-one",
        (Figure("idle-1", "idle CPU, embedded, 1 query", "1.4 %", "<= 0.2 %"),),
    ),
    Process(
        "embedded-few",
        (
            Figure("idle-100", "idle CPU, embedded, {few} queries", "78-88 %", "<= 0.5 %"),
            Figure(
                "record-100", "one record through {few} embedded queries", "1.3-1.7 s", "<= 0.35 s"
            ),
        ),
    ),
    Process(
        "embedded-many",
        (
            Figure("create", "creating {many} embedded queries as a script", "-", "<= 30 s"),
            Figure("memory", "memory with {many} embedded queries", "-", "<= 1 GB"),
            Figure("idle-1000", "idle CPU, embedded, {many} queries", "-", "<= 3 %"),
            Figure("record-1000", "one record through {many} embedded queries", "-", "<= 3 s"),
        ),
    ),
    Process(
        "reopen",
        (Figure("reopen", "reopening {many} embedded queries with state", "-", "<= 5 s"),),
    ),
    Process(
        "trickle",
        (
            Figure(
                "trickle",
                "400 records a second in 4 batches a second, 5 embedded queries, {trickle:.0f} s",
                "92-97 % in 480 s, rising; 333 -> 671 MB",
                "<= 8 %, flat; memory flat after 2 minutes",
            ),
        ),
    ),
    Process(
        "latency",
        (
            Figure(
                "latency",
                "embedded latency, insert to push query",
                "16 ms of CPU a query",
                "<= 3 ms p50",
            ),
        ),
    ),
    Process(
        "filters",
        (
            Figure("filters-8", "{filters[0]} filters over one topic against 1", "3.4x", "<= 1.8x"),
            Figure("filters-64", "{filters[1]} filters over one topic against 1", "-", "<= 8x"),
        ),
    ),
    Process(
        "exchange",
        tuple(
            Figure(
                f"exchange-{number}",
                f"CPU of a row that moves, {{tasks[{index}]}} tasks against {{tasks[0]}}, with 1"
                " instance and with 4, log in memory",
                "-",
                "<= 1.3x",
            )
            for index, number in ((1, 64), (2, 256))
        ),
    ),
    Process(
        "kafka-one-by-one",
        (
            Figure(
                "kafka-create", "creating {shared} queries on Kafka, one by one", "21 s", "<= 3 s"
            ),
            Figure("kafka-threads", "threads, Kafka, {shared} queries", "755", "<= 64"),
            Figure(
                "kafka-idle",
                "idle CPU, Kafka, {shared} queries",
                "34-39 %",
                "50: <= 1.5 %, 500: <= 5 %",
            ),
            Figure(
                "kafka-record", "one record through {shared} Kafka queries", "1-2.2 s", "<= 0.30 s"
            ),
        ),
        kafka=True,
    ),
    Process(
        "kafka-script",
        (
            Figure(
                "kafka-script", "creating {shared} queries on Kafka as a script", "-", "<= 1.5 s"
            ),
        ),
        kafka=True,
    ),
    Process(
        "kafka-round",
        (
            Figure(
                "kafka-round",
                "the log's part of a commit with {few} queries due, Kafka",
                "a transaction each",
                "one, <= 60 ms",
            ),
        ),
        kafka=True,
    ),
)
FIGURES = tuple(figure for process in PROCESSES for figure in process.figures)


@dataclass(frozen=True, slots=True)
class Reading:
    """What was measured for a figure. It is not `complete` if the limit came first: `measured` then
    says what was reached."""

    figure: str
    measured: str
    complete: bool = True
