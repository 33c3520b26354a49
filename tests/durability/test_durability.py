"""The harness finds what it is made for, and some images and damages of every run pass."""

from __future__ import annotations

import random
import shutil
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millstream.log.block_copies import SUFFIX
from millstream.model.file_damage import SUMS
from tests.draws import draws
from tests.durability.flips import copies, damages, exchange_within, judged
from tests.durability.images import acknowledged, laid_out, violation
from tests.durability.recorded import (
    Kind,
    Recording,
    Step,
    _surviving,
    image,
    images,
    record,
)
from tests.durability.verify import Opener
from tests.durability.workload import NAME

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    if shutil.which("cc") is None:
        pytest.skip("what a process writes is recorded by a library in C, and there is no cc")
    scratch = tmp_path_factory.mktemp("recorded")
    (scratch / "work").mkdir()
    return record("tests.durability.workload", scratch / "work", scratch, "60")


@pytest.fixture(scope="module")
def opener() -> Iterator[Opener]:
    with Opener() as found:
        yield found


def violations(recording: Recording, count: int, folder: Path, opener: Opener) -> list[str]:
    after = acknowledged(recording)
    found = []
    for done, made in images(recording, count, 3):
        laid_out(made, folder)
        found.append(violation(opener.open(folder), bisect_left(after, done + 1)))
    return [wrong for wrong in found if wrong]


def test_power_may_be_lost_at_any_moment(
    recording: Recording, tmp_path: Path, opener: Opener
) -> None:
    assert violations(recording, draws(60), tmp_path, opener) == []


def test_a_log_that_is_not_synced_would_be_found(
    recording: Recording, tmp_path: Path, opener: Opener
) -> None:
    """As if the disk had ignored what syncs the write-ahead log."""
    wal = next(i for i, name in enumerate(recording.names) if name.endswith(f"{NAME}.wal"))
    steps = [
        step for step in recording.steps if not (step.kind is Kind.SYNCED and step.file == wal)
    ]
    assert violations(replace(recording, steps=steps), 60, tmp_path, opener)


def torn_checkpoints(recording: Recording) -> Iterator[dict[str, bytes]]:
    """Images in which the directory's block is torn by each checkpoint that writes it again."""
    file = recording.names.index(next(n for n in recording.names if n.endswith(f"/{NAME}")))
    places: set[int] = set()
    for number, step in enumerate(recording.steps):
        if step.file == file and step.kind is Kind.WRITTEN and len(step.data) > 4096:
            if step.offset in places and step.offset == 3 * 4096:
                torn = replace(step, data=step.data[:8192])
                kept = [*recording.steps[:number], torn]
                kept.append(Step(Kind.SYNCED, file, 0, b""))
                yield image(Recording(recording.names, kept), len(kept), random.Random(1))
            places.add(step.offset)


def test_a_checkpoint_may_be_torn(recording: Recording, tmp_path: Path, opener: Opener) -> None:
    """DuckDB writes blocks with its directory over what is in use; copies of them are put back.
    Without the copies the log does not open."""
    torn = list(torn_checkpoints(recording))
    assert len(torn) >= 2
    for made in torn:
        assert f"{NAME}{SUFFIX}" in made
        laid_out(made, tmp_path)
        found = opener.open(tmp_path)
        assert found["numbers"] == list(range(len(found["numbers"]))), found
        assert not (tmp_path / f"{NAME}{SUFFIX}").exists()
        without = {name: content for name, content in made.items() if not name.endswith(SUFFIX)}
        laid_out(without, tmp_path)
        assert "refused" in opener.open(tmp_path)


def test_copies_that_are_damaged_or_of_another_time_are_not_used(
    recording: Recording, tmp_path: Path, opener: Opener
) -> None:
    made, *_ = torn_checkpoints(recording)
    copied = made[f"{NAME}{SUFFIX}"]
    for content in (b"", copied[:20], copied[:-1], copied[:900] + b"x" + copied[901:]):
        laid_out({**made, f"{NAME}{SUFFIX}": content}, tmp_path)
        assert "refused" in opener.open(tmp_path)
    whole = image(recording, len(recording.steps), random.Random(1))
    laid_out({**whole, f"{NAME}{SUFFIX}": copied}, tmp_path)
    assert len(opener.open(tmp_path)["numbers"]) == 60


def test_tears_keep_sectors_whole() -> None:
    chance = random.Random(4)
    step = Step(Kind.WRITTEN, 0, 300, bytes(3000))
    for _ in range(300):
        left = _surviving(step, "torn", chance)
        if left is not None:
            for edge in (left.offset, left.offset + len(left.data)):
                assert edge % 512 == 0 or edge in (300, 3300)


def test_damage_is_told_or_does_not_count(tmp_path: Path, opener: Opener) -> None:
    """Of a database that was closed, and of one that was killed."""
    verdicts = set()
    for whole in copies(tmp_path).values():
        before = opener.open(whole)
        assert len(before["numbers"]) == 40
        for how, _ in damages(whole, tmp_path / "damaged", 40, 9):
            verdict = judged(opener.open(tmp_path / "damaged"), before)
            assert verdict in ("same", "refused"), how
            verdicts.add(verdict)
    assert verdicts == {"same", "refused"}


def test_parts_of_a_block_may_be_in_each_others_place(tmp_path: Path, opener: Opener) -> None:
    """Which the block's checksum does not tell, and for which DuckDB would abort the process."""
    folder = tmp_path / "damaged"
    for whole in copies(tmp_path).values():
        before = opener.open(whole)
        for how, _ in damages(whole, folder, 15, 1, exchange_within):
            assert judged(opener.open(folder), before) == "same", how


def test_a_damage_that_aborts_the_process_does_so_once(tmp_path: Path, opener: Opener) -> None:
    """Where it is not known what the directory was."""
    whole, folder = copies(tmp_path)["closed"], tmp_path / "damaged"
    before = opener.open(whole)
    for how, file in damages(whole, folder, 100, 1, exchange_within):
        Path(f"{file}{SUMS}").unlink()
        if "duckdb::InternalException" in opener.open(folder).get("died", ""):
            assert judged(opener.open(folder), before) == "same", how
            return
    pytest.fail("none of them aborted the process")


def test_a_lost_end_of_the_log_is_noticed(tmp_path: Path, opener: Opener) -> None:
    """Without the mark it would pass for a loss of power."""
    killed = copies(tmp_path)["killed"]
    wal, mark = killed / f"{NAME}.wal", killed / f"{NAME}.mark"
    content = wal.read_bytes()
    wal.write_bytes(content[: len(content) // 8])
    found = opener.open(killed)
    assert found["refused"] == "E-LOG-CUT" and str(mark) in found["message"]
    assert wal.read_bytes() == content[: len(content) // 8], "nothing is changed by looking"
    mark.unlink()
    found = opener.open(killed)
    assert 0 < len(found["numbers"]) < 40
    assert sum(n for _, n, _ in found["sums"]) == len(found["numbers"]), "not the state's 40"


def test_the_process_that_opens_may_die() -> None:
    with Opener() as opener:
        opener.open(Path("nowhere"))
        assert opener._process is not None
        opener._process.kill()
        assert "died" in opener.open(Path("nowhere"))
        assert "refused" in opener.open(Path("nowhere"))
