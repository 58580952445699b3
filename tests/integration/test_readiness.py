# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook `readiness` on a real lab: well; with things broken, each of which turns the right answer red and names the
remedy; with hosts that do not answer; and exercised. Its second node has ballast-service-proxy in place of kube-proxy, and the
last test changes that."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.info import readiness_answers as control_plane
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Api
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.connection import connect
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.objects import OURS
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import readiness_answers as kube_proxy
from tests.integration import journal
from tests.integration.lab import Lab, Run, lab_named, stopped
from tests.integration.told import assert_reported

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a lab"),
    pytest.mark.skipif(os.path.isdir("/run/systemd/system"), reason="stops services by runit"),
]
# Not of the lab: nothing listens there. The second one's module refuses what it is told.
STRANGERS = """
[fleet]
away ansible_connection=ssh ansible_host=127.0.0.1 ansible_port=1 ansible_ssh_common_args="-o ConnectTimeout=2 -o ControlMaster=no"
n2 kube_proxy_deployment=nonsense
"""


@dataclass(frozen=True)
class Fleet:
    lab: Lab
    place: Path

    def asked(self, *inventories: str, **variables: object) -> tuple[Run, dict[str, Any]]:
        """One run, and the report that it wrote."""
        given = [word for path in ("lab.yml", *inventories) for word in ("-i", str(self.place / path))]
        asked = {"readiness_hosts": "all", "readiness_dir": str(self.place / "report"), **variables}
        run = self.lab.playbook("readiness", *given, **asked)
        report: dict[str, Any] = json.loads((self.place / "report/readiness.json").read_text(encoding="utf-8"))
        return run, report

    @property
    def api(self) -> Api:
        return connect(LocalHost(), f"{self.lab.directory}/admin.kubeconfig")

    def service(self, name: str) -> str:
        """Directory of the one service whose name ends so."""
        (found,) = [path for path in self.lab.services() if path.endswith(name)]
        return found


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    place = tmp_path_factory.mktemp("readiness")
    with lab_named("rdy") as lab:
        up = lab.up(lab_topology=str(topology(place, n1="nftables", n2="ballast")))
        assert up.status == 0, up.output
        (place / "lab.yml").write_text(f"plugin: ballast.kube.lab\nlab_dir: {lab.directory}\n", encoding="utf-8")
        (place / "strangers.ini").write_text(STRANGERS, encoding="utf-8")
        yield Fleet(lab, place)


def topology(place: Path, **backends: str) -> Path:
    """By node."""
    nodes = [{"name": name, "proxy_backend": backend} for name, backend in backends.items()]
    path = place / "topology.yml"
    path.write_text(json.dumps({"balloons": True, "nodes": nodes}), encoding="utf-8")
    return path


def service_rules(lab: Lab, node: str) -> set[str]:
    """In a node, by the name of a table or chain of each program that serves Services there."""
    inside = ["ip", "netns", "exec", f"ballast-{lab.name}-{node}"]
    found = LocalHost().run([*inside, "nft", "list", "ruleset", "ip"], timeout=60).stdout.split()
    found += LocalHost().run([*inside, "iptables-save"], timeout=60).stdout.replace(":", " ").split()
    return {"kube-proxy", "KUBE-SERVICES", "ballast-service-proxy"} & set(found)


def problems(report: dict[str, Any]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """What fails the run, by host, feature and question."""
    return {(one["host"], one["feature"], one["question"]): one for one in report["problems"] if one["fails"]}


def states(report: dict[str, Any]) -> dict[str, set[str]]:
    return {feature["name"]: {host["state"] for host in feature["hosts"]} for feature in report["features"]}


def answer(report: dict[str, Any], feature: str, host: str, name: str) -> dict[str, Any]:
    (found,) = [one for one in report["features"] if one["name"] == feature]
    (place,) = [one for one in found["hosts"] if one["host"] == host]
    (told,) = [one for one in place["answers"] if one["name"] == name]
    return dict(told)


@contextmanager
def plane_at(place: str) -> Iterator[None]:
    """What a run that is killed leaves of the control plane that it exercised is removed."""
    forgotten = journal.module("control_plane_record", {"plane_dir": place, "state": "absent"})
    removed = journal.module("control_plane", {"state_dir": f"{place}/plane", "state": "absent"})
    with journal.undone_by(*forgotten), journal.undone_by(*removed):
        yield


def test_a_lab_that_is_well_fails_nothing(fleet: Fleet) -> None:
    assert fleet.lab.summary["connectivity"] == {"pairs": 4, "passed": 4}
    run, report = fleet.asked()
    assert run.status == 0, run.output
    assert problems(report) == {}
    assert service_rules(fleet.lab, "n1") == {"kube-proxy"}
    assert service_rules(fleet.lab, "n2") == {"ballast-service-proxy"}
    assert {name for name, found in states(report).items() if "on" in found} == {
        "kube_proxy",
        "balloons",
        "node_instances",
        "control_plane",
    }
    assert report["summary"]["hosts"] == {"all": 3, "reached": 3}
    # Nothing was exercised yet, which is said and fails nobody.
    assert report["verdict"] == "amber"
    assert (fleet.place / "report/readiness.html").stat().st_size > 10_000
    figures = answer(report, "control_plane", "localhost", "healthy")["figures"]
    assert [figure["name"] for figure in figures if figure["value"] is None] == []


def test_an_exercise_is_done_and_puts_back_what_it_changed(fleet: Fleet) -> None:
    with plane_at(f"{fleet.place}/plane"):
        options = {"readiness_plane_dir": f"{fleet.place}/plane", "kube_proxy_drain_seconds": 1}
        run, report = fleet.asked(readiness_exercise=True, readiness_canary=["n1", "localhost"], **options)
    assert run.status == 0, run.output
    done = {(one["feature"], one["host"], one["kind"]): one["steps"] for one in report["exercises"]}
    exercised = {
        ("kube_proxy", "n1"),
        *((name, "localhost") for name in ("balloons", "node_instances", "control_plane")),
    }
    assert set(done) == {(*pair, kind) for pair in exercised for kind in ("enable", "setting")}
    assert all(step["ok"] and step["seconds"] > 0 for steps in done.values() for step in steps), done
    assert not (fleet.place / "plane").exists()
    lights = {feature["name"]: feature["light"] for feature in report["features"]}
    assert {name for name, light in lights.items() if light != "grey"} == {
        "kube_proxy",
        "balloons",
        "node_instances",
        "control_plane",
    }
    assert report["verdict"] == "green", lights
    # The last node was stopped and started by what its host has of it.
    assert fleet.service("n2-service-proxy")


def test_a_balloon_of_the_name_that_is_there_is_not_exercised(fleet: Fleet) -> None:
    options = {"readiness_exercise": True, "readiness_hosts": "localhost", "readiness_features": ["balloons"]}
    path = "/apis/scheduling.k8s.io/v1/priorityclasses/ballast-balloon-readiness"
    fleet.api.create(
        path.rpartition("/")[0], {"metadata": {"name": path.rpartition("/")[2], "labels": dict(OURS)}, "value": 1}
    )
    run, report = fleet.asked(**options)
    fleet.api.delete(path)
    assert run.status != 0
    assert report["summary"]["hosts"] == {"all": 1, "reached": 1}, "what was read is reported"
    assert "nothing was drilled on localhost: " in run.output
    assert "there is something already: PriorityClass ballast-balloon-readiness" in run.output
    assert "-m ballast.kube.balloon -a" in run.output


def test_what_is_broken_turns_red_with_the_remedy_and_half_a_fleet_is_said(fleet: Fleet) -> None:
    remembered = json.loads((fleet.place / "report/readiness.json").read_text(encoding="utf-8"))["exercises"]
    with ExitStack() as down:
        for service in ("n1-kube-proxy", "n2-service-proxy", "-kube-scheduler"):
            down.enter_context(stopped(fleet.service(service)))
        run, report = fleet.asked("strangers.ini")
    assert run.status != 0
    assert (report["verdict"], report["summary"]["hosts"]) == ("red", {"all": 4, "reached": 3})
    assert_reported(report, {control_plane.PROCESS_AWAY: ["localhost"], kube_proxy.DOWN: ["n1"]})
    found = problems(report)
    (healthy, failures) = (found["localhost", "control_plane", question] for question in ("healthy", "failures"))
    assert "kube-scheduler" in healthy["text"]
    assert "run ballast.kube.control_plane again with the same options" in healthy["remedy"]
    assert f"{fleet.lab.directory}/plane/log" in healthy["remedy"]
    assert "A process of the control plane does not run" in failures["text"]
    for feature, host in (("kube_proxy", "n1"), ("node_instances", "localhost")):
        assert found[host, feature, "healthy"]["light"] == "red"
        assert found[host, feature, "healthy"]["remedy"]
    assert found["localhost", "node_instances", "healthy"]["text"] == "Unhealthy: n1, n2."
    # One host is not reached, one module failed: nobody knows more of them than that.
    assert found["away", "", ""]["light"] == "amber"
    assert "reachable by Ansible" in found["away", "", ""]["remedy"]
    assert "nonsense" in found["n2", "kube_proxy", ""]["text"]
    assert ("n2", "kube_proxy", "healthy") not in found
    assert healthy["text"][:40] in run.output
    assert "readiness.html" in run.output
    assert report["exercises"] == remembered != []


def test_a_node_changes_between_the_service_proxy_and_kube_proxy_and_nothing_else_restarts(fleet: Fleet) -> None:
    lab = fleet.lab
    before = lab.services()
    own = fleet.service("n2-service-proxy")
    for backend, rules in (("iptables", {"KUBE-SERVICES"}), ("ballast", {"ballast-service-proxy"})):
        run = lab.up(lab_topology=str(topology(fleet.place, n1="nftables", n2=backend)))
        assert run.status == 0, run.output
        nodes = lab.summary["nodes"]
        assert [(node["proxy_backend"], node["proxy_reason"]) for node in nodes] == [("nftables", ""), (backend, "")]
        assert lab.summary["connectivity"] == {"pairs": 4, "passed": 4}
        assert service_rules(lab, "n2") == rules
        changed = {own, own.replace("n2-service-proxy", "n2-kube-proxy")}
        assert without(lab.services(), changed) == without(before, changed)


def without(services: dict[str, int], left_out: set[str]) -> dict[str, int]:
    return {path: pid for path, pid in services.items() if path not in left_out}
