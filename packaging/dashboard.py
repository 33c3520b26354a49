"""Writes the dashboard for Grafana: `python packaging/dashboard.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "monitoring" / "dashboard.json"
_WIDTH, _HEIGHT = 24, 8
_OF_INSTANCE = 'instance=~"$instance"'
_OF_QUERY = f'{_OF_INSTANCE}, query=~"$query"'


@dataclass(frozen=True, slots=True)
class Panel:
    """A picture: queries with the names of their lines, and the unit as Grafana calls it."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    width: int = 12


def _rate(metric: str, by: str = "query") -> str:
    return f"sum by ({by}) (rate({metric}{{{_OF_QUERY}}}[$__rate_interval]))"


def _now(metric: str, by: str = "query") -> str:
    return f"sum by ({by}) ({metric}{{{_OF_QUERY}}})"


def _of_instance(metric: str) -> str:
    return f"{metric}{{{_OF_INSTANCE}}}"


_COMMITS = "millstream_query_commit_duration_seconds_bucket"
_ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "At a glance",
        (
            Panel("Running", "short", ((f"sum({_of_instance('millstream_up')})", ""),), "stat", 4),
            Panel(
                "Queries that failed",
                "short",
                (
                    (
                        f'sum(millstream_queries{{{_OF_INSTANCE}, state=~"ERROR|FENCED"}})',
                        "",
                    ),
                ),
                "stat",
                4,
            ),
            Panel(
                "Records a second",
                "short",
                ((f"sum({_rate('millstream_query_records_in_total')})", ""),),
                "stat",
                4,
            ),
            Panel(
                "Records to process",
                "short",
                ((f"sum({_now('millstream_query_lag_records')})", ""),),
                "stat",
                4,
            ),
            Panel(
                "Records skipped in an hour",
                "short",
                (
                    (
                        "sum(increase(millstream_query_problems_total"
                        f'{{{_OF_QUERY}, kind!="LATE"}}[1h]))',
                        "",
                    ),
                ),
                "stat",
                4,
            ),
            Panel(
                "Memory",
                "bytes",
                ((f"sum({_of_instance('millstream_process_resident_memory_bytes')})", ""),),
                "stat",
                4,
            ),
        ),
    ),
    (
        "Queries",
        (
            Panel(
                "Records read",
                "cps",
                ((_rate("millstream_query_records_in_total"), "{{query}}"),),
            ),
            Panel(
                "Records written",
                "cps",
                ((_rate("millstream_query_records_out_total"), "{{query}}"),),
            ),
            Panel(
                "Records to process",
                "short",
                ((_now("millstream_query_lag_records"), "{{query}}"),),
            ),
            Panel(
                "Entries of the processing log",
                "cps",
                ((_rate("millstream_query_problems_total", "query, kind"), "{{query}} {{kind}}"),),
            ),
            Panel(
                "Commits, 99 of 100 within",
                "s",
                (
                    (
                        f"histogram_quantile(0.99, {_rate(_COMMITS, 'query, le')})",
                        "{{query}}",
                    ),
                ),
            ),
            Panel(
                "Opened again from the last commit",
                "short",
                (
                    (
                        "sum by (query) (increase(millstream_query_reopened_total"
                        f"{{{_OF_QUERY}}}[$__interval]))",
                        "{{query}}",
                    ),
                ),
            ),
            Panel(
                "State to restore",
                "short",
                ((_now("millstream_query_restore_left_records"), "{{query}}"),),
            ),
            Panel(
                "Time in Python functions",
                "percentunit",
                ((_rate("millstream_query_called_seconds_total"), "{{query}}"),),
            ),
        ),
    ),
    (
        "Instances",
        (
            Panel(
                "CPU",
                "percentunit",
                (
                    (
                        "rate(millstream_process_cpu_seconds_total"
                        f"{{{_OF_INSTANCE}}}[$__rate_interval])",
                        "{{instance}}",
                    ),
                ),
            ),
            Panel(
                "Memory",
                "bytes",
                ((_of_instance("millstream_process_resident_memory_bytes"), "{{instance}}"),),
            ),
            Panel(
                "Files",
                "bytes",
                ((_of_instance("millstream_file_bytes"), "{{instance}} {{file}}"),),
            ),
            Panel(
                "Queries that wait for a thread",
                "short",
                ((_of_instance("millstream_waiting_queries"), "{{instance}}"),),
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana imports it."""
    return {
        "uid": "millstream",
        "title": "Millstream",
        "tags": ["millstream"],
        "timezone": "",
        "schemaVersion": 39,
        "version": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {
                    "name": "source",
                    "label": "Prometheus",
                    "type": "datasource",
                    "query": "prometheus",
                },
                _variable("instance", "Instance", "label_values(millstream_up, instance)"),
                _variable("query", "Query", "label_values(millstream_query_state, query)"),
            ]
        },
        "panels": list(_panels()),
    }


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _source(),
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _source() -> dict[str, str]:
    return {"type": "prometheus", "uid": "${source}"}


def _panels() -> Iterator[dict[str, Any]]:
    number, y = 0, 0
    for title, panels in _ROWS:
        number += 1
        place = {"h": 1, "w": _WIDTH, "x": 0, "y": y}
        yield {"id": number, "type": "row", "title": title, "gridPos": place, "panels": []}
        x, y = 0, y + 1
        for panel in panels:
            if x + panel.width > _WIDTH:
                x, y = 0, y + _HEIGHT
            number += 1
            yield _panel(panel, number, x, y)
            x += panel.width
        y += _HEIGHT


def _panel(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    height = _HEIGHT if panel.kind == "timeseries" else _HEIGHT // 2
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _source(),
        "gridPos": {"h": height, "w": panel.width, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": expression, "legendFormat": name}
            for at, (expression, name) in enumerate(panel.lines)
        ],
    }


def text() -> str:
    """The content of the file."""
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
