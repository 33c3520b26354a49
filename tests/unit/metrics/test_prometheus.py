"""The text for Prometheus follows its grammar for all names, and has the right values."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from millstream import Database, exposition
from millstream.metrics.families import FAMILIES, SECTIONS
from millstream.metrics.figures import (
    Commits,
    EngineMetrics,
    InstanceMetrics,
    PartitionPosition,
    ProcessMetrics,
    QueryMetrics,
    Restoration,
    SubTopologyMetrics,
    Traffic,
)
from millstream.runtime.durations import Durations
from millstream.runtime.spec import QueryState
from tests.docs import DOCS

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


@dataclass(slots=True)
class Parsed:
    """The scraper's result for a text."""

    kinds: dict[str, str] = field(default_factory=dict)
    values: dict[tuple[str, frozenset[tuple[str, str]]], float] = field(default_factory=dict)

    def value(self, name: str, **labels: str) -> float:
        return self.values[name, frozenset(labels.items())]


def parse(text: str) -> Parsed:
    """The text format 0.0.4, strictly."""
    assert text.endswith("\n")
    parsed, helped, current = Parsed(), set(), ""
    for line in text[:-1].split("\n"):
        if told := re.fullmatch(rf"# HELP ({NAME}) (.*)", line):
            current = told[1]
            assert current not in helped and not re.search(r"\\[^\\n]", told[2])
            helped.add(current)
        elif told := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram)", line):
            assert told[1] == current and current not in parsed.kinds
            parsed.kinds[current] = told[2]
        else:
            told = SAMPLE.fullmatch(line)
            assert told, line
            suffixes = SUFFIXES[parsed.kinds[current]]
            assert told[1] in {current + suffix for suffix in suffixes}, "families stay together"
            labels = [(name, unescaped(value)) for name, value in re.findall(LABEL, told[2] or "")]
            assert len(dict(labels)) == len(labels)
            assert (told[1], frozenset(labels)) not in parsed.values
            parsed.values[told[1], frozenset(labels)] = float(told[7])
    return parsed


def unescaped(text: str) -> str:
    return re.sub(r'\\(["\\n])', lambda found: "\n" if found[1] == "n" else found[1], text)


def a_query(name: str = "CTAS_T_1") -> QueryMetrics:
    traffic = Traffic(100, 50, 2.5, 1.25, 7, 3, 2)
    took = Durations().plus(1_500_000).plus(40_000_000).plus(10**12)
    return QueryMetrics(
        name,
        "PERSISTENT",
        "RESTORING",
        traffic=traffic,
        lag=12,
        positions=(PartitionPosition("in", 0, 88, 12), PartitionPosition("in", 1, 5, None)),
        restoration=Restoration(10, 40, 5.0, 2.0),
        restored=30,
        commits=Commits(3, took, 120, 250, 1),
        runs=9,
        last_run_ms=1_700_000_000_250,
        problems={"LATE": 3, "DESERIALIZATION": 2},
        sub_topologies=(SubTopologyMetrics(0, ("in",), ("out",), 2, traffic, None, 10),),
    )


def an_engine(*queries: QueryMetrics) -> EngineMetrics:
    states = {state.value: 0 for state in QueryState}
    process = ProcessMetrics(5.0, 1.5, None, 4, {"log": 10, "state": 20})
    instance = InstanceMetrics(7, Durations().plus(3_000_000).plus(30_000_000), 12, 9)
    states |= {"RESTORING": len(queries)}
    return EngineMetrics(True, queries, states, process, instance=instance)


def test_values() -> None:
    parsed = parse(exposition(an_engine(a_query())))
    query = {"query": "CTAS_T_1"}
    assert parsed.value("millstream_up") == 1
    assert parsed.value("millstream_waiting_queries") == 7
    assert parsed.value("millstream_commit_round_duration_seconds_count") == 2
    assert parsed.value("millstream_commit_round_duration_seconds_bucket", le="0.005") == 1
    assert parsed.value("millstream_commit_round_commits_total") == 12
    assert parsed.value("millstream_commit_round_largest") == 9
    assert parsed.value("millstream_queries", state="RESTORING") == 1
    assert parsed.value("millstream_file_bytes", file="state") == 20
    assert parsed.value("millstream_query_records_in_total", **query) == 100
    assert parsed.value("millstream_query_records_out_per_second", **query) == 1.25
    assert parsed.value("millstream_query_problems_total", **query, kind="DESERIALIZATION") == 2
    place = {**query, "topic": "in", "partition": "0"}
    assert parsed.value("millstream_query_partition_lag_records", **place) == 12
    assert parsed.value("millstream_query_restore_eta_seconds", **query) == 2
    assert parsed.value("millstream_query_last_run_timestamp_seconds", **query) == 1_700_000_000.25
    assert parsed.value("millstream_query_commit_wait_seconds", **query) == 0.12
    sub = {**query, "sub_topology": "0"}
    assert parsed.value("millstream_sub_topology_changes_total", **sub) == 7
    state = {**query, "type": "PERSISTENT"}
    assert parsed.value("millstream_query_state", **state, state="RESTORING") == 1
    assert parsed.value("millstream_query_state", **state, state="RUNNING") == 0


def test_what_is_not_known_is_left_out() -> None:
    names = {name for name, _ in parse(exposition(an_engine(a_query()))).values}
    assert "millstream_process_resident_memory_bytes" not in names
    assert "millstream_sub_topology_lag_records" not in names
    idle = replace(a_query(), restoration=None, last_run_ms=None)
    names = {name for name, _ in parse(exposition(an_engine(idle))).values}
    assert not {name for name in names if "query_restore_" in name or "last_run" in name}


def test_the_histogram_is_cumulative() -> None:
    parsed = parse(exposition(an_engine(a_query())))
    name, query = "millstream_query_commit_duration_seconds", ("query", "CTAS_T_1")
    buckets = {
        dict(labels)["le"]: value
        for (sample, labels), value in parsed.values.items()
        if sample == f"{name}_bucket" and query in labels
    }
    assert buckets["0.001"] == 0 and buckets["0.002"] == 1 and buckets["0.05"] == 2
    assert buckets["30"] == 2 and buckets["+Inf"] == 3
    assert list(buckets.values()) == sorted(buckets.values())
    assert parsed.value(f"{name}_count", query="CTAS_T_1") == 3
    assert parsed.value(f"{name}_sum", query="CTAS_T_1") == pytest.approx(1000.0415)


@given(st.lists(st.text(), min_size=1, max_size=3, unique=True), st.text())
def test_any_names(ids: list[str], topic: str) -> None:
    place = PartitionPosition(topic, 0, 1, 2)
    queries = [replace(a_query(name), positions=(place,)) for name in ids]
    parsed = parse(exposition(an_engine(*queries)))
    for name in ids:
        assert parsed.value("millstream_query_lag_records", query=name) == 12
        labels = {"query": name, "topic": topic, "partition": "0"}
        assert parsed.value("millstream_query_partition_offset", **labels) == 1


@given(st.text())
def test_openmetrics_has_the_same_values(name: str) -> None:
    """By the library's parser, which checks the rules of OpenMetrics."""
    metrics = an_engine(replace(a_query(name), positions=(PartitionPosition(name, 0, 1, 2),)))
    text = exposition(metrics, openmetrics=True)
    found = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found == parse(exposition(metrics)).values
    assert text.endswith("# EOF\n")


def test_names_and_labels_are_as_prometheus_asks() -> None:
    for family in FAMILIES:
        assert family.name.startswith("millstream_")
        assert family.name.endswith("_total") == (family.kind == "counter")
        assert family.meaning.endswith(".")
    labels = defaultdict(set)
    for name, found in parse(exposition(an_engine(a_query()))).values:
        labels[re.sub("_(bucket|sum|count)$", "", name)] |= {label for label, _ in found}
    declared = {
        family.name: {*family.labels, *(["le"] if family.kind == "histogram" else [])}
        for family in FAMILIES
    }
    assert all(declared[name] == found for name, found in labels.items())


def test_a_running_database(shop: Database) -> None:
    parsed = parse(exposition(shop.metrics()))
    (query,) = shop.engine.catalog.queries
    assert set(parsed.kinds) == {family.name for family in FAMILIES}
    assert parsed.value("millstream_query_records_in_total", query=query) == 4
    assert parsed.value("millstream_queries", state="RUNNING") == 1


def test_the_documentation_lists_each_metric_and_no_other() -> None:
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(millstream_\w+)` \|", page, re.MULTILINE)
    assert listed == [family.name for family in FAMILIES]
    assert all(f"### {title}" in page for title in SECTIONS)
