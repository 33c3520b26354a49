"""One contender over the whole input: what it took, from its first record to its last commit.

It ends when its sink has stood still for a while and its group, where it has one, has committed the
end of the input. Time and CPU count from its line START (for Millstream before the statement that
makes the query, for Kafka Streams its first record, for Flink the start of the job) to the moment
at which the later of the two was first seen; the time before START is reported separately.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.kafka.cluster import Cluster, Place
from tests.bench.kafka.contenders import COMMANDS, Race, millstream
from tests.bench.kafka.load import topic_of
from tests.bench.kafka.measure import cpu_seconds, peak_mb, tree

QUIET_SECONDS = 3.0
LIMIT_SECONDS = 240.0
LOOK_SECONDS = 0.1
PLAIN = {"MILLSTREAM_KAFKA_CLIENT": "plain"}


@dataclass(slots=True)
class Taken:
    """The state of a run at one moment."""

    at: float
    cpu: float
    broker: float


@dataclass(slots=True)
class Process:
    """A contender's processes, and what they have printed."""

    running: list[subprocess.Popen[str]]
    marks: dict[str, str] = field(default_factory=dict)
    start: Taken | None = None

    def tree(self) -> list[int]:
        """All its processes."""
        return [child for process in self.running for child in tree(process.pid)]

    @property
    def ended(self) -> bool:
        """Whether all have ended by themselves."""
        return all(process.poll() is not None for process in self.running)

    def stop(self) -> None:
        """End them, by force after a time."""
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.running:
            try:
                process.wait(25)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def launch(
    race: Race, cluster: Cluster, state: Path, built: Path, reader: str, instances: int = 1
) -> Process:
    """Start a contender; Millstream may have several instances."""
    environment = {**os.environ, **(PLAIN if reader == "plain" else {})}
    commands = []
    for index in range(instances if race.contender == "millstream" else 1):
        own = state / str(index)
        own.mkdir()
        if race.contender == "millstream":
            more = ["follow=1"] if index else []
            commands.append(millstream(race, cluster.servers, own, *more))
        else:
            commands.append(COMMANDS[race.contender](race, cluster.servers, own, built))
    process = Process([])
    for command in commands:
        started = subprocess.Popen(
            command, stdout=subprocess.PIPE, env=environment, text=True, bufsize=1
        )
        process.running.append(started)
        threading.Thread(target=_listen, args=(started, process, cluster), daemon=True).start()
    return process


def _listen(started: subprocess.Popen[str], process: Process, cluster: Cluster) -> None:
    assert started.stdout is not None
    for line in started.stdout:
        word, _, rest = line.partition(" ")
        process.marks.setdefault(word, rest.strip())
        if word == "START" and process.start is None:
            process.start = _taken(process, cluster)


def _taken(process: Process, cluster: Cluster) -> Taken:
    used = cpu_seconds(process.tree())
    return Taken(time.time(), used, cpu_seconds([cluster.process]))


def measured(
    race: Race, cluster: Cluster, built: Path, reader: str, instances: int = 1
) -> dict[str, float]:
    """Run it once."""
    cluster.create(race.sink, race.partitions)
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as folder:
        launched = time.time()
        process = launch(race, cluster, Path(folder), built, reader, instances)
        try:
            end, peak = _to_the_end(race, cluster, process)
        finally:
            process.stop()
    if process.start is None:
        raise SystemExit(f"{race.contender} {race.workload.name} never started")
    million = sum(_inputs(race, cluster).values()) / 1e6
    start, seconds = process.start, end.at - process.start.at
    return {
        "million": million,
        "cpu": (end.cpu - start.cpu) / million,
        "broker": (end.broker - start.broker) / million,
        "start_cpu": start.cpu,
        "start_seconds": start.at - launched,
        "rate": million * 1e6 / seconds,
        "peak_mb": peak,
    }


def _to_the_end(race: Race, cluster: Cluster, process: Process) -> tuple[Taken, int]:
    places = [(race.sink, partition) for partition in range(race.partitions)]
    wanted = _inputs(race, cluster)
    group = race.name if race.contender == "streams" else ""
    written, at_rest, peak, done = -1, _taken(process, cluster), 0, False
    limit = time.time() + LIMIT_SECONDS
    while time.time() < limit:
        time.sleep(LOOK_SECONDS)
        now, peak = _taken(process, cluster), max(peak, peak_mb(process.tree()))
        found = sum(cluster.ends(places, committed=race.exactly_once).values())
        group = group or process.marks.get("GROUP", "")
        done_before, done = done, done or _committed(cluster, group, wanted, process)
        if found != written or not done_before:
            written = found
            at_rest = at_rest if process.ended else now
        if process.ended or (done and now.at - at_rest.at > QUIET_SECONDS):
            return at_rest, peak
    print(f"LIMIT: {race.contender} {race.workload.name} did not end", file=sys.stderr)
    return at_rest, peak


def _committed(cluster: Cluster, group: str, wanted: dict[Place, int], process: Process) -> bool:
    """Whether all input is behind the group; of one without a group, whether it has ended."""
    if not group:
        return process.ended
    found = cluster.positions(group, list(wanted))
    return all(found.get(place, -1) >= end for place, end in wanted.items())


def _inputs(race: Race, cluster: Cluster) -> dict[Place, int]:
    topics = [
        race.bids if source == "bid" else topic_of(source, race.partitions) + race.suffix
        for source in race.workload.inputs
    ]
    places = [(topic, part) for topic in topics for part in range(race.partitions)]
    return cluster.ends(places, committed=False)
