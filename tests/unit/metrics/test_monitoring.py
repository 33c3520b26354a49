"""The dashboard and the rules ask for metrics that there are."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import millstream

PACKAGING = Path(__file__).resolve().parents[3] / "packaging"
FOLDER = PACKAGING / "monitoring"
_METRIC = re.compile(r"\bmillstream_[a-z0-9_]+")
_LABELS = re.compile(r"(millstream_[a-z0-9_]+)\{([^}]*)\}")


@pytest.fixture(scope="module")
def exposed() -> dict[str, set[str]]:
    """The metrics of a database with a query that has skipped a record, with their labels."""
    with millstream.connect() as db:
        db.execute("""
            CREATE STREAM s (k STRING KEY, v INT)
              WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');
            CREATE TABLE t AS SELECT k, COUNT(*) AS c FROM s GROUP BY k EMIT CHANGES;
        """)
        db.insert("s", [{"K": "a", "V": 1}])
        db.wait()
        text = millstream.exposition(db.metrics())
    families = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(millstream_\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
        found[name] = set(re.findall(r"(\w+)=", labels))
    # Of these there is no value without a restoration, a file or a problem.
    for name, labels in {
        "millstream_query_restore_left_records": {"query"},
        "millstream_file_bytes": {"file"},
        "millstream_query_problems_total": {"query", "kind"},
    }.items():
        assert name.removesuffix("_total") in {each.removesuffix("_total") for each in families}
        found.setdefault(name, labels)
    return found


def expressions() -> list[str]:
    rules = yaml.safe_load((FOLDER / "rules.yml").read_text())
    found = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    for panel in dashboard().dashboard()["panels"]:
        found += [target["expr"] for target in panel.get("targets", ())]
    return found


def dashboard() -> Any:
    spec = importlib.util.spec_from_file_location("dashboard", PACKAGING / "dashboard.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclass looks itself up there.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "dashboard", module)
        spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("expression", expressions())
def test_each_expression_asks_for_what_there_is(
    expression: str, exposed: dict[str, set[str]]
) -> None:
    names = set(_METRIC.findall(expression))
    assert names <= exposed.keys(), names - exposed.keys()
    for name, labels in _LABELS.findall(expression):
        asked = set(re.findall(r"(\w+)\s*(?:=~|!=|=)", labels)) - {"instance"}
        assert asked <= exposed[name], (name, asked)


def test_the_dashboard_is_what_its_source_makes() -> None:
    assert (FOLDER / "dashboard.json").read_text() == dashboard().text()


def test_panels_do_not_lie_upon_each_other() -> None:
    taken = set()
    for panel in dashboard().dashboard()["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool, of Debian's prometheus")
def test_the_rules_say_what_they_are_meant_to() -> None:
    for command in (["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]):
        done = subprocess.run(
            ["promtool", *command], cwd=FOLDER, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
