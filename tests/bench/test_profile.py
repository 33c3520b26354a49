"""`make profile` counts everything once: its stages add up to the CPU of the process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time

import pytest

from tests.bench import profile
from tests.bench.stage_clock import NATIVE, OTHER, StageClock

ROW = re.compile(r"\| ([\w ]+) \| (.*) \|")


def burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def cells(output: str) -> dict[str, list[float]]:
    """Microseconds of each stage, a column for each workload."""
    rows = [ROW.fullmatch(line) for line in output.splitlines()[3:]]
    return {row[1]: [float(cell.split()[0]) for cell in row[2].split(" | ")] for row in rows if row}


def test_each_stage_counts_what_it_does_itself() -> None:
    clock = StageClock({})
    inner = clock.timed(lambda: burn(0.02), "inner")

    def outer() -> None:
        burn(0.03)
        inner()
        inner()

    with clock.measured() as spent:
        started = time.process_time()
        clock.timed(outer, "outer")()
        total = time.process_time() - started
    assert spent["inner"] >= 0.04
    assert 0.03 <= spent["outer"] <= total - spent["inner"] + 0.001


def test_a_stage_that_has_not_ended_is_counted_so_far() -> None:
    clock = StageClock({})
    burnt, done = threading.Event(), threading.Event()

    def loop() -> None:
        burn(0.02)
        burnt.set()
        done.wait()

    thread = threading.Thread(target=clock.timed(loop, "loop"))
    with clock.measured() as spent:
        thread.start()
        burnt.wait()
    done.set()
    thread.join()
    assert spent["loop"] >= 0.02


def test_what_no_stage_counts_is_other() -> None:
    clock = StageClock({})
    with clock.measured() as spent:
        started = time.process_time()
        burn(0.02)
        thread = threading.Thread(target=burn, args=(0.02,))
        thread.start()
        thread.join()
        total = time.process_time() - started
    # The kernel may still have the thread that has just ended, as one without Python.
    assert spent[OTHER] + spent.get(NATIVE, 0) >= 0.04
    assert sum(spent.values()) >= total


def test_an_error_ends_its_stage() -> None:
    clock = StageClock({})

    def fail() -> None:
        raise ValueError

    with clock.measured() as spent:
        with pytest.raises(ValueError):
            clock.timed(fail, "failing")()
        burn(0.02)
    assert spent["failing"] < 0.02 <= spent[OTHER]


def test_threads_of_libraries_are_stages_of_their_own() -> None:
    program = """
import pyarrow as pa, pyarrow.compute as pc
from tests.bench.stage_clock import StageClock
pa.set_cpu_count(4)
clock = StageClock({"python": "library"})
table = pa.chunked_array([list(range(100_000))] * 64)
with clock.measured() as spent:
    for _ in range(5):
        pc.sort_indices(table)
        pa.table({"n": table}).group_by("n").aggregate([("n", "sum")])
print(spent["library"])
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert float(done.stdout) > 0


def test_the_product_is_as_before_afterwards() -> None:
    from millstream.log.embedded import EmbeddedLog

    before = EmbeddedLog._write
    with StageClock({}).watching(profile.STAGES):
        assert EmbeddedLog._write is not before
    assert EmbeddedLog._write is before


def checked(output: str, columns: int) -> dict[str, list[float]]:
    found = cells(output)
    for column in range(columns):
        values = {stage: row[column] for stage, row in found.items() if stage != "total"}
        # Rows are rounded to three places.
        assert sum(values.values()) == pytest.approx(found["total"][column], abs=0.001 * len(found))
        for stage in ("fetch", "decode", "order", "program", "append"):
            assert values[stage] > 0, stage
    assert {*found} <= {*profile.ORDER, NATIVE, OTHER, "total"}
    return found


def test_workloads_over_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["W3", "trickle"]
    assert profile.main([",".join(names), "--events", "5000", "--seconds", "1"]) == 0
    output = capsys.readouterr().out
    assert output.splitlines()[2] == "| us/record | W3 | trickle |"
    found = checked(output, len(names))
    assert found["insert"][1] > found["insert"][0] == 0
    assert found["state"][0] > 0


def test_workloads_on_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    servers = os.environ.get("MILLSTREAM_KAFKA")
    if not servers:
        pytest.skip("no Kafka: set MILLSTREAM_KAFKA=host:port")
    assert profile.main(["W2", "--log", "kafka", "--kafka", servers, "--events", "5000"]) == 0
    assert checked(capsys.readouterr().out, 1)[profile.CLIENT][0] > 0


def test_an_unknown_workload_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        profile.main(["W99"])
    assert "there is no workload 'W99'" in capsys.readouterr().err
