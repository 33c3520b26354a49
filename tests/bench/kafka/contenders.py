"""The contenders: Millstream, and the peers whose sources are beside this repository (--peers).

The peers are built from ../shared/bench, with its settings: Kafka Streams with two threads and,
where Millstream coalesces, 10 MiB of cache; Flink SQL with parallelism 2, mini-batches where
Millstream coalesces. They are compiled once, into a folder of their own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.workloads import Workload

PEERS = ("streams", "flink")
AVRO_STREAMS, AVRO_FLINK = "streams-avro", "flink-avro"
AVRO = "-avro"
"""Behind the names of topics whose values are in AVRO with the ids of a registry."""
RAW = "-raw"
"""Behind those whose values have no ids: the format of Flink that reads such is not to be had."""
_AVRO_VERSION = "1.12.2"
_JAVA = ("java", "-Xms2g", "-Xmx2g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
_OPENED = (
    *("java.lang", "java.util", "java.nio", "java.time", "java.net", "java.lang.reflect"),
    *("java.util.concurrent", "sun.nio.ch"),
)


@dataclass(frozen=True, slots=True)
class Race:
    """One run: the contender, the workload and the mode. `commit_ms` is the interval of commits."""

    contender: str
    workload: Workload
    exactly_once: bool
    commit_ms: int
    partitions: int
    name: str
    """Of the application, and of its sink with `-out` behind it."""
    bids: str = "bid"
    """The topic of the bids."""
    live: bool = False
    """Whether it continues after the end of the input: for latencies."""
    suffix: str = ""
    """Behind the names of the topics of the input."""
    registry: str = ""
    """Where the schemas are, if values are in AVRO."""

    @property
    def sink(self) -> str:
        """The topic of the results."""
        return f"{self.name}-out"


def millstream(race: Race, servers: str, state: Path, *more: str) -> list[str]:
    """The command that runs Millstream."""
    return [
        *(sys.executable, "-m", "tests.bench.kafka.engine", race.workload.name),
        *(f"servers={servers}", f"service={race.name}", f"state={state / 'state.db'}"),
        *(f"sink={race.sink}", f"partitions={race.partitions}", f"in={race.bids}"),
        f"guarantee={'exactly_once' if race.exactly_once else 'at_least_once'}",
        *(f"commit={race.commit_ms}", f"suffix={race.suffix}", f"registry={race.registry}", *more),
    ]


def streams(race: Race, servers: str, state: Path, built: Path) -> list[str]:
    """The command that runs Kafka Streams."""
    cache = "10485760" if race.workload.cached else "0"
    folder, program = (AVRO_STREAMS, "StreamsAvro") if race.registry else ("streams", "KS")
    command = [
        *(*_JAVA, "-cp", f"{built}/{folder}/target/classes:{built}/{folder}/lib/*", program),
        *(race.workload.name.rstrip("c"), f"sink={race.sink}", f"application.id={race.name}"),
        *(f"state.dir={state}", f"bootstrap.servers={servers}", f"in={race.bids}"),
        *(f"commit.interval.ms={race.commit_ms}", f"statestore.cache.max.bytes={cache}"),
    ]
    if race.registry:
        command.append(f"auction=auction{race.suffix}")
    if race.exactly_once:
        command.append("processing.guarantee=exactly_once_v2")
    return [*command, "producer.linger.ms=0"] if race.live else command


def flink(race: Race, servers: str, state: Path, built: Path) -> list[str]:
    """The command that runs Flink SQL."""
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    batches = race.workload.cached and not race.live
    folder = AVRO_FLINK if race.registry else "flink"
    classes = f"{built}/{folder}/target/classes:{built}/{folder}/lib/*"
    return [
        *(*_JAVA, *opens, "-cp", classes, "FlinkPeer"),
        *(race.workload.name.rstrip("c"), f"sink={race.sink}", f"app={race.name}"),
        *(f"state={state}", f"boot={servers}", f"eos={int(race.exactly_once)}", f"in={race.bids}"),
        *(f"checkpoint={race.commit_ms}", f"minibatch={int(batches)}", "backend=hashmap"),
        f"bounded={int(not race.live)}",
    ]


COMMANDS: dict[str, Callable[[Race, str, Path, Path], list[str]]] = {
    "streams": streams,
    "flink": flink,
}


def built(wanted: list[str], sources: Path, folder: Path) -> list[str]:
    """Compile the requested peers, and print which ones are unavailable."""
    found = []
    for peer in wanted:
        if peer not in COMMANDS:
            raise SystemExit(f"There is no peer '{peer}': choose from {', '.join(COMMANDS)}")
        if not (sources / peer).is_dir() and not (folder / peer).is_dir():
            print(f"SKIPPED: {peer}, whose sources are not in {sources}", file=sys.stderr)
        elif _compiled(peer, sources, folder):
            found.append(peer)
        else:
            print(f"SKIPPED: {peer} could not be compiled (Java 17, Maven?)", file=sys.stderr)
    return found


def built_for_avro(sources: Path, folder: Path) -> list[str]:
    """The same for peers whose values are in Avro: a program of ours on Kafka Streams, and that of
    Flink with another format."""
    found = []
    for peer, name in zip(PEERS, (AVRO_STREAMS, AVRO_FLINK), strict=True):
        if not (folder / name).is_dir() and (sources / peer).is_dir():
            shutil.copytree(sources / peer, folder / name)
            _in_avro(folder / name, peer)
        if (folder / name).is_dir() and _compiled(name, sources, folder):
            found.append(peer)
        else:
            print(f"SKIPPED: {name} (sources in {sources}, Java 17, Maven?)", file=sys.stderr)
    return found


def _in_avro(place: Path, peer: str) -> None:
    code, pom = place / "src/main/java", place / "pom.xml"
    if peer == "streams":
        (code / "KS.java").unlink()
        shutil.copy(Path(__file__).parent / "java" / "StreamsAvro.java", code)
        needed = ("org.apache.avro", "avro", _AVRO_VERSION)
    else:
        text = (code / "FlinkPeer.java").read_text(encoding="utf-8")
        text = text.replace("format'='json'", "format'='avro'")
        text = text.replace('String.format(src, "auction")', f'String.format(src, "auction{RAW}")')
        (code / "FlinkPeer.java").write_text(text, encoding="utf-8")
        needed = ("org.apache.flink", "flink-avro", "${f}")
    group, artifact, version = needed
    more = (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency></dependencies>"
    )
    text = pom.read_text(encoding="utf-8").replace("</dependencies>", more)
    pom.write_text(text, encoding="utf-8")


def _compiled(peer: str, sources: Path, folder: Path) -> bool:
    place = folder / peer
    if (place / "target/classes").is_dir() and (place / "lib").is_dir():
        return True
    if not place.is_dir():
        shutil.copytree(sources / peer, place)
    (place / "target/classes").mkdir(parents=True, exist_ok=True)
    code = [str(path) for path in sorted(place.glob("src/main/java/*.java"))]
    steps = (
        ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"],
        ["javac", "--release", "17", "-nowarn", "-d", "target/classes", "-cp", "lib/*", *code],
    )
    try:
        done = all(subprocess.run(step, cwd=place, check=False).returncode == 0 for step in steps)
    except OSError:
        done = False
    if not done:
        shutil.rmtree(place / "target", ignore_errors=True)
    return done
