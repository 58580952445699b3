"""The rules and the dashboard that are shipped, the page about them, and the features that name them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent.metrics import Metrics as OfBalloons
from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent.metrics import View
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.agent.counts import Counts
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.agent.metrics import (
    Metrics as OfPlanes,
)
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.metrics import Metrics as OfPulls
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.pulls import Snapshot
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.faces.metrics import Metrics as OfServices
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.ports import Repaired
from tests.unit.readings import FEATURES

ROOT = Path(__file__).resolve().parents[3]
RULES = yaml.safe_load((ROOT / "roles/readiness/files/ballast-rules.yml").read_text("utf-8"))
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule}
DASHBOARD = json.loads((ROOT / "roles/readiness/files/ballast-dashboard.json").read_text("utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
PAGE = (ROOT / "docs/metrics.md").read_text("utf-8")
CASES = (ROOT / "tests/integration/rule_cases.yml").read_text("utf-8")
ADDRESS = "https://github.com/ballast-kube/ballast.kube/blob/main/docs/metrics.md"
UNITS = {"none", "s", "ms", "bytes", "Bps", "ops", "reqps", "percentunit"}
GRID = 24


def test_the_page_has_the_alerts_as_they_are():
    argv = [sys.executable, "-m", "scripts.alert_page", "--check"]
    done = subprocess.run(argv, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (done.stdout + done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_to_do_and_where_to_read(name):
    alert = ALERTS[name]
    assert re.fullmatch(r"Ballast[A-Z][A-Za-z]+", name)
    assert alert["labels"] in ({"severity": "page"}, {"severity": "ticket"})
    assert set(alert["annotations"]) == {"summary", "remedy", "page"}
    assert alert["annotations"]["page"] == f"{ADDRESS}#{name.lower()}"
    assert re.fullmatch(r"[1-9]\d*m", alert["for"]), "the tests against real parts cut this to seconds"
    assert f"### {name}\n" in PAGE


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_names_only_labels_that_its_expression_keeps(name):
    """An aggregation by some labels drops the others: the text would have a hole there."""
    told = " ".join(ALERTS[name]["annotations"].values())
    named = set(re.findall(r"\$labels\.(\w+)", told))
    kept = [set(re.split(r", ?", labels)) for labels in re.findall(r"by \(([^)]*)\)", ALERTS[name]["expr"])]
    for labels in kept:
        assert named <= labels


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_case_in_which_it_fires(name):
    assert f'alertname="{name}"' in CASES


def test_the_names_of_alerts_and_rules_are_their_own():
    names = [rule.get("alert") or rule["record"] for group in RULES["groups"] for rule in group["rules"]]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_failure_modes_name_alerts_that_there_are_and_every_alert_is_of_a_feature():
    """By a failure mode as its alert, or in what the feature says of its metrics."""
    modes = {mode.alert for feature in FEATURES for mode in feature.failures if mode.alert}
    texts = [static.text for feature in FEATURES for static in feature.statics.values()]
    texts += [mode.detection for feature in FEATURES for mode in feature.failures]
    named = modes | {name for text in texts for name in re.findall(r"\bBallast[A-Z][A-Za-z]+", text)}
    assert named == set(ALERTS)


def families():
    """Type by name of every metric that our programs tell."""
    pulls = OfPulls(["n1"])
    pulls.watch(["n1"], lambda: Snapshot(1, (), ()))
    balloons = OfBalloons(View, lambda: 0)
    balloons.count_error("core-no-answer")
    planes = OfPlanes(Counts(), list)
    services = OfServices()
    services.take(Repaired(0.0, 4, 0.1, 1))
    texts = [one.library.generate_latest(one.registry).decode() for one in (pulls, balloons, planes, services)]
    found = {}
    for text in texts:
        for family in text_string_to_metric_families(text):
            counted = family.type == "counter" and not family.name.endswith("_total")
            found[f"{family.name}_total" if counted else family.name] = family.type
    return {name: kind for name, kind in found.items() if name.startswith("ballast_") and not name.endswith("_created")}


def test_the_page_has_every_metric_of_ours_with_its_type():
    told = dict(re.findall(r"^\| `(ballast_[a-z_]+)`[^|]*\| (\w+) \|", PAGE, re.MULTILINE))
    assert told == families()


def test_rules_and_dashboard_speak_of_metrics_of_ours_that_are_there():
    there = {*families(), *(f"{name}_{part}" for name in families() for part in ("bucket", "count"))}
    texts = [rule["expr"] for group in RULES["groups"] for rule in group["rules"]]
    texts += [target["expr"] for panel in PANELS for target in panel["targets"]]
    named = {name for text in texts for name in re.findall(r"(?<![\w:])ballast_[a-z_]+(?![\w:])", text)}
    assert named
    assert named - there == set()


def test_the_panels_of_the_dashboard_lie_side_by_side():
    taken = Counter(
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    )
    assert max(taken.values()) == 1
    assert max(x for x, _y in taken) == GRID - 1
    assert [id for id, count in Counter(panel["id"] for panel in DASHBOARD["panels"]).items() if count > 1] == []


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_has_what_grafana_shows_it_by(panel):
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert panel["type"] in ("stat", "timeseries")
    assert panel["datasource"] == source
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert [target["refId"] for target in panel["targets"]] == list("ABCDE"[: len(panel["targets"])])
    assert all(target["datasource"] == source and target["expr"] for target in panel["targets"])


def test_the_dashboard_can_be_imported():
    """As "Dashboard JSON model" of Grafana's documentation has it: no id of another Grafana, its variables declared."""
    assert DASHBOARD["id"] is None
    assert re.fullmatch(r"[a-z-]{8,40}", DASHBOARD["uid"])
    declared = {row["name"] for row in DASHBOARD["templating"]["list"]}
    text = json.dumps(DASHBOARD["panels"])
    used = set(re.findall(r"\$\{?([a-z]\w*)", text)) - {"__rate_interval"}
    assert used == declared == {"datasource", "instance"}
    named = set(re.findall(r"\b(Ballast[A-Z][A-Za-z]+)\b", text))
    assert named <= set(ALERTS)
