"""Each row of `make bench-instance` measures what it says, in a size that takes seconds."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any

import pytest

import millstream
from tests.bench import instance
from tests.bench.figures.catalogue import FIGURES, PROCESSES, SMALL, Figure, Process
from tests.bench.figures.queries import check, create, one_record
from tests.bench.figures.trickle import Sample, summary

USED = r"\d+\.\d\d s, \d+\.\d\d CPU-s"
COST = r"\d+\.\d\dx with {} \(\d+\.\d\d us a row\)"
FORMS = {
    "idle": rf"\d+\.\d\d % \({USED}\)",
    "record": rf"{USED} \(the first {USED}\)",
    "create": USED,
    "script": USED,
    "reopen": USED,
    "memory": r"\d+ MB",
    "threads": r"\d+",
    "trickle": r"\d+\.\d % .* first \d+ s .* last \d+ s .* MB -> \d+ MB; \d of 8 batches late",
    "latency": r"p50 \d+\.\d ms, p99 \d+\.\d ms \(.* ms of CPU an insert, .*\)",
    "round": r"\d+ ms \(the first \d+ ms\)",
    "exchange": rf"{COST.format(1)}, {COST.format(4)}",
    "filters": rf"\d+\.\d\dx \({USED} against {USED}\)",
}
"""What a row looks like, by the part of its name that says what is measured."""


def form(figure: str) -> str:
    parts = figure.removeprefix("kafka-").split("-")
    return FORMS[parts[0]]


def rows(output: str) -> list[list[str]]:
    """The cells of each row below the head of the table."""
    lines = [line for line in output.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def measured(process: Process, capsys: pytest.CaptureFixture[str], servers: str = "") -> None:
    names = [figure.name for figure in process.figures]
    more = ["--kafka", servers] if servers else []
    assert instance.main(["--scale", "small", "--only", *names, *more]) == 0
    found = rows(capsys.readouterr().out)
    assert len(found) == len(process.figures)
    for (title, value, before, goal), figure in zip(found, process.figures, strict=True):
        assert (before, goal) == (figure.before, figure.goal)
        assert "{" not in title
        assert re.fullmatch(form(figure.name), value), value
        assert re.search("[1-9]", value), value


@pytest.mark.parametrize(
    "process", [one for one in PROCESSES if not one.kafka], ids=lambda process: process.name
)
def test_embedded_rows(process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    measured(process, capsys)


@pytest.mark.parametrize(
    "process", [one for one in PROCESSES if one.kafka], ids=lambda process: process.name
)
def test_rows_on_kafka(process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    servers = os.environ.get("MILLSTREAM_KAFKA")
    if not servers:
        pytest.skip("no Kafka: set MILLSTREAM_KAFKA=host:port")
    measured(process, capsys, servers)


def test_a_folder_with_an_underscore_gives_a_service_id() -> None:
    assert instance.service_of("/tmp/millstream-bench-a_b") == "millstream-bench-a-b"


def test_names_are_unique() -> None:
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)


def test_a_figure_that_fails_has_its_error_in_the_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = Process("unknown", (Figure("idle-1", "nothing", "1 %", "0 %"),))
    monkeypatch.setattr(instance, "PROCESSES", (unknown,))
    assert instance.main(["--scale", "small", "--only", "idle-1"]) == 1
    row = ["nothing", "ERROR: exit status 1: KeyError: 'unknown'", "1 %", "0 %"]
    assert rows(capsys.readouterr().out) == [row]


def test_without_a_broker_only_the_rows_on_kafka_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(*_: Any) -> tuple[str, str]:
        return "", "no Kafka broker"

    monkeypatch.setattr(instance, "_broker", none)
    assert instance.main(["--scale", "small", "--only", "idle-1", "kafka-script"]) == 1
    idle, script = (row[1] for row in rows(capsys.readouterr().out))
    assert re.fullmatch(FORMS["idle"], idle)
    assert script == "ERROR: no Kafka broker"


def test_creating_stops_at_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--scale", "small", "--only", "create", "memory", "--limit", "0"]
    assert instance.main(arguments) == 1
    for row in rows(capsys.readouterr().out):
        assert row[1].endswith(": STOPPED at 1 of 10 queries")


def test_queries_that_do_not_read_the_record_are_noticed() -> None:
    with millstream.connect() as database:
        made, used = create(database, 4, SMALL.limit, one_by_one=True)
        assert made == 4
        assert used.cpu > 0
        one_record(database, 4)
        assert len(set(check(database, 4))) == 1
        with pytest.raises(RuntimeError, match="4 of 5 queries"):
            check(database, 5)
        database.execute("PAUSE CTAS_Q0_1;")
        with pytest.raises(RuntimeError, match="CTAS_Q0_1"):
            one_record(database, 4)


def test_a_trickle_that_rises_shows_it() -> None:
    """30 % of a core in the first minute and 90 % in the last one."""
    steps = [Sample(float(at), at * 0.3, 100) for at in range(61)]
    steps += [Sample(float(at), 18 + (at - 60) * 0.6, 200) for at in range(61, 121)]
    steps += [Sample(float(at), 54 + (at - 120) * 0.9, 300) for at in range(121, 181)]
    text = summary(steps, 2)
    assert "first 60 s 30.0 %, last 60 s 90.0 %; 100 MB -> 200 MB -> 300 MB" in text
    assert text.startswith("60.0 % (108.0 CPU-s, 180 s)")
    assert text.endswith("2 of 180 batches late")


def test_scales_reach_the_measuring_process(monkeypatch: pytest.MonkeyPatch) -> None:
    options = instance.parsed(["--scale", "small", "--trickle-seconds", "480", "--limit", "9"])
    assert options.scale == replace(SMALL, trickle=480.0, limit=9.0)
