# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.record import record_path
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.wait import Impossible, Pending, Ready
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._lab.addons.catalog import ADDONS
from ansible_collections.ballast.kube.plugins.module_utils._lab.check import (
    MANIFESTS,
    SERVICE_NAME,
    CheckEngine,
    CheckRequest,
    _summary,
    judge_pods,
    manifests,
    read_status,
)
from ansible_collections.ballast.kube.plugins.module_utils._lab.connections import Pod
from ansible_collections.ballast.kube.plugins.module_utils._lab.messages import MESSAGES
from ansible_collections.ballast.kube.plugins.module_utils._lab.summary import (
    AddonState,
    NodeSummary,
    Summary,
    table,
)
from tests.unit.cases import apply
from tests.unit.fakes import FakeHost, json_answer
from tests.unit.lab import given as g

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = Path(__file__).parent / "golden"
PROGRESS = Progress(NullSink(), feature="check")
KUBECTL = "/opt/kubernetes/kubectl"
PODS = f"{g.API}/api/v1/namespaces/ballast-lab/pods"
SERVICE = f"{g.API}/api/v1/namespaces/ballast-lab/services/echo"


def pod(
    node: str, *, ready: bool = True, address: str = "10.128.1.2", waiting: str = "", **metadata: Any
) -> dict[str, Any]:
    state: dict[str, Any] = {"waiting": {"reason": waiting, "message": "why"}} if waiting else {"running": {}}
    return {
        "metadata": {"name": f"echo-{node}", **metadata},
        "spec": {"nodeName": node},
        "status": {
            "podIPs": [{"ip": part} for part in address.split(",") if part],
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"state": state}],
        },
    }


@pytest.mark.parametrize(
    ("items", "answer"),
    [
        ([], Pending("pods ready on 0 of 2 nodes; n1: no pod yet")),
        ([pod("n1")], Pending("pods ready on 1 of 2 nodes; n2: no pod yet")),
        ([pod("n1"), pod("n2", ready=False)], Pending("pods ready on 1 of 2 nodes; n2: starting")),
        ([pod("n1"), pod("n2", address="")], Pending("pods ready on 1 of 2 nodes; n2: starting")),
        (
            [pod("n1", ready=False, waiting="ContainerCreating")],
            Pending("pods ready on 0 of 2 nodes; n1: ContainerCreating"),
        ),
        (
            [pod("n2", ready=False, waiting="CrashLoopBackOff"), pod("n1")],
            Pending("pods ready on 1 of 2 nodes; n2: CrashLoopBackOff"),
        ),
        ([pod("n1", ready=False, waiting="ErrImageNeverPull")], Impossible("pod on n1: ErrImageNeverPull: why")),
        ([pod("n1", ready=False, waiting="InvalidImageName")], Impossible("pod on n1: InvalidImageName: why")),
        ([pod("n1"), pod("n2", deletionTimestamp="now")], Pending("pods ready on 1 of 2 nodes; n2: no pod yet")),
        (
            [pod("gone", ready=False, waiting="ErrImageNeverPull")],
            Pending("pods ready on 0 of 2 nodes; n1: no pod yet"),
        ),
        ([{"metadata": {"name": "x"}}], Pending("pods ready on 0 of 2 nodes; n1: no pod yet")),
        (
            [{"metadata": {"name": "x"}, "spec": {"nodeName": "n1"}}],
            Pending("pods ready on 0 of 2 nodes; n1: starting"),
        ),
        (
            [pod("n2", address="10.128.2.2"), pod("n1")],
            Ready(
                [
                    Pod(name="echo-n1", node="n1", addresses=("10.128.1.2",)),
                    Pod(name="echo-n2", node="n2", addresses=("10.128.2.2",)),
                ]
            ),
        ),
    ],
)
def test_pods_are_judged_by_what_the_api_says(items: list[Mapping[str, Any]], answer: object) -> None:
    assert judge_pods(items, ["n1", "n2"]) == answer


def test_in_a_lab_of_both_ip_families_a_pod_has_an_address_of_each() -> None:
    items = [pod("n1", address="10.128.1.2,fd00::2"), pod("n2")]
    assert judge_pods(items, ["n1", "n2"], families=2) == Pending("pods ready on 1 of 2 nodes; n2: starting")


def test_the_service_of_the_check_must_have_both_ip_families_where_the_lab_has_them() -> None:
    path = SERVICE.removeprefix(g.API)
    assert "ipFamilyPolicy" not in manifests(g.lab())[path]["spec"]
    assert manifests(g.lab(ip_family="dual"))[path]["spec"]["ipFamilyPolicy"] == "RequireDualStack"
    assert "ipFamilyPolicy" not in MANIFESTS[path]["spec"], "a copy was changed"


def summary(*, well: bool = True, dns: bool = False) -> Summary:
    def node(number: int, fine: bool) -> NodeSummary:
        return NodeSummary(
            name=f"n{number}",
            host="localhost",
            ready=fine,
            cordoned=False,
            ready_seconds=2.04 if fine else None,
            pss_bytes=146 * 2**20 if fine else 0,
            pod_ip=f"10.128.{number}.2" if fine else "",
            pods_reached=2 if well else int(fine),
            service_reached=fine,
            name_resolved=fine if dns else None,
            proxy_backend="nftables",
        )

    nodes = tuple(node(number, well or number != 2) for number in (1, 2, 3))
    return Summary(
        name="lab", kubernetes_version="1.37.1", plane_ready_seconds=2.61, plane_rss_bytes=465 * 2**20, nodes=nodes
    )


def test_the_table_counts_the_members_of_the_control_plane_and_names_what_is_down() -> None:
    plane = {"members": [{"number": 1, "down": []}, {"number": 2, "down": ["etcd-2"]}, {"number": 3, "down": []}]}
    found = _summary(desired(2, control_plane=plane), [], {}, {}, ())
    assert "control plane: 2 of 3 members, down: etcd-2; ready after" in table(found, g.lab())
    well = replace(found, plane_members=found.plane_members[::2])
    assert "control plane: 2 of 2 members; ready after" in table(well, g.lab())


@pytest.mark.parametrize(
    ("name", "well", "lab_dir", "target"), [("well.txt", True, g.DIR, "host"), ("ill.txt", False, "/srv/lab", "vm")]
)
def test_the_table_is_as_it_was(name: str, well: bool, lab_dir: str, target: str) -> None:
    """With UPDATE_GOLDEN=1 the files are written anew; look at the difference."""
    text, path = table(summary(well=well), g.lab(lab_dir=lab_dir, target=target)) + "\n", GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


def test_the_summary_has_the_keys_that_are_promised() -> None:
    found = summary().as_json()
    plane = {"state": "running", "ready_seconds": 2.61, "rss_bytes": 465 * 2**20, "members": []}
    assert found["control_plane"] == plane
    assert found["connectivity"] == {"pairs": 9, "passed": 9}
    promised = {
        "name",
        "host",
        "cordoned",
        "ready_seconds",
        "pss_bytes",
        "pod_ip",
        "pods_reached",
        "service_reached",
        "proxy_backend",
        "proxy_reason",
    }
    assert promised <= set(found["nodes"][0])
    assert summary(well=False).as_json()["connectivity"] == {"pairs": 9, "passed": 4}


def test_a_node_that_gets_no_new_pods_is_shown_as_kubectl_shows_it() -> None:
    cordoned = replace(summary().nodes[0], cordoned=True)
    lines = table(replace(summary(), nodes=(cordoned, *summary().nodes[1:])), g.lab()).splitlines()
    assert [line for line in lines if "SchedulingDisabled" in line] == [lines[3]]
    assert "2.0 s,SchedulingDisabled" in lines[3]


@pytest.mark.parametrize("by_kubeadm", [False, True])
def test_whether_a_node_is_cordoned_comes_from_its_node_object(by_kubeadm: bool) -> None:
    instances = [] if by_kubeadm else [{"name": "n1", "ready": True, "cordoned": True}]
    node = {"metadata": {"name": "n1"}, "spec": {"unschedulable": True}, "status": {"conditions": []}}
    found = _summary(desired(2, instances=instances), [], {}, {"n1": node} if by_kubeadm else {}, ())
    assert [row.cordoned for row in found.nodes] == [True, False]


def desired(count: int = 3, **changes: Any) -> CheckRequest:
    given = {
        "state_dir": f"{g.DIR}/check",
        "lab_dir": f"{g.DIR}/",
        "kubectl": KUBECTL,
        "lab": g.lab(nodes=count),
        "instances": [
            {"name": f"n{n}", "ready": True, "ready_seconds": 2.0, "pss_bytes": 2**27} for n in range(1, count + 1)
        ],
        "control_plane": {"ready_seconds": 2.6, "rss_bytes": 2**29},
        "ready_seconds": 5.0,
        "settle_seconds": 5.0,
        "output": "table",
        **changes,
    }
    return CheckRequest.from_params(given)


def machine(*, deaf: str = "", nameless: str = "", objects: Optional[dict[str, Any]] = None) -> FakeHost:
    """A lab whose pods run; the node `deaf` reaches nobody, and on `nameless` no name is resolved."""
    host, kept = g.machine(), {} if objects is None else objects

    def program(url: str, body: Optional[bytes]) -> Response:
        source = url.removeprefix(f"{PODS}/echo-").partition(":")[0]
        names = {f"10.128.{n}.2:8080": f"n{n}" for n in range(1, 9)}
        if source == nameless:
            names[SERVICE_NAME] = ""
        targets = (body or b"").decode().split()
        answers = (f"{target} {'' if source == deaf else names.get(target, 'n1')}\n" for target in targets)
        return Response(200, "".join(answers).encode())

    g.keep_objects(host, kept)
    host.answer(PODS, json_answer(200, {"items": [pod(f"n{n}", address=f"10.128.{n}.2") for n in (1, 2, 3)]}))
    host.answer(SERVICE, json_answer(200, {"metadata": {}, "spec": {"clusterIPs": ["10.96.0.9"]}}))
    for n in (1, 2, 3):
        host.answer(f"{PODS}/echo-n{n}/log", Response(200, b""))
        host.answer(f"{PODS}/echo-n{n}:8080/proxy/cgi-bin/ask", program, method="POST")
    return host


_DNS = ADDONS["dns"].workloads[0]
_STORAGE = ADDONS["storage"].workloads[0]


def workload(**changes: Any) -> dict[str, Any]:
    """A Deployment of one pod, which is ready."""
    status = {"observedGeneration": 1, "availableReplicas": 1, "updatedReplicas": 1, **changes}
    return {"kind": "Deployment", "metadata": {"generation": 1}, "status": status}


def test_a_lab_that_works_is_found_to_work() -> None:
    host, engine = machine(), CheckEngine()
    assert engine.verify(Context(desired(), host, PROGRESS)) == []
    report = engine.report(Context(desired(), host))
    assert json.loads(host.text(f"{g.DIR}/summary.json")) == report["summary"]
    assert report["summary"]["connectivity"] == {"pairs": 9, "passed": 9}
    assert "connections: 9 of 9 passed" in str(report["ballast_summary"])
    assert json.loads(str(engine.report(Context(desired(output="json"), host))["ballast_summary"])) == report["summary"]
    assert len([url for _method, url, _body in host.requests if url.endswith("/ask")]) == 3, "each pod is asked once"
    assert len([url for _method, url, _body in host.requests if "/log?" in url]) == 3


def test_a_node_is_shown_with_the_backend_that_it_has_now() -> None:
    readings = [{"name": "n1", "proxy_backend": "iptables"}, {"name": "n2", "proxy_backend": "nftables"}]
    report: Any = CheckEngine().report(Context(desired(instances=readings), machine()))
    found = [node["proxy_backend"] for node in report["summary"]["nodes"]]
    assert found == ["iptables", "nftables", "nftables"]  # of the last one nothing was read


def test_a_node_whose_proxy_is_not_healthy_is_shown_so() -> None:
    readings = [
        {"name": "n1", "proxy_backend": "ballast", "proxy_reason": ""},
        {"name": "n2", "proxy_backend": "ballast", "proxy_reason": "service-proxy returns status 503 on /readyz"},
    ]
    report: Any = CheckEngine().report(Context(desired(instances=readings), machine()))
    found = [node["proxy_reason"] for node in report["summary"]["nodes"]]
    assert found == ["", "service-proxy returns status 503 on /readyz", ""]
    lines = [line for line in report["ballast_summary"].splitlines() if "ballast  " in line or "not healthy" in line]
    assert [line.split()[0] for line in lines] == ["n1", "n2"]
    assert "ballast (not healthy)  " in lines[1]


def test_with_dns_the_service_is_asked_by_its_name_too() -> None:
    lab = g.lab(nodes=3, addons=["dns"])
    report: Any = CheckEngine().report(Context(desired(lab=lab), machine()))
    assert {node["name_resolved"] for node in report["summary"]["nodes"]} == {False}, "nothing was measured"
    engine, host = CheckEngine(), machine(objects={_DNS: workload()})
    assert engine.verify(Context(desired(lab=lab), host, PROGRESS)) == []
    report = engine.report(Context(desired(lab=lab), host))
    assert {node["name_resolved"] for node in report["summary"]["nodes"]} == {True}
    assert "SERVICE  DNS" in report["ballast_summary"]
    assert "DNS" not in table(summary(), g.lab())


def test_add_ons_are_shown_with_their_states() -> None:
    lab = g.lab(nodes=3, addons=["dns", "storage"])
    engine, host = CheckEngine(), machine(objects={_DNS: workload(), _STORAGE: workload()})
    report: Any = engine.report(Context(desired(lab=lab), host))
    assert "add-ons:     dns: unknown, storage: unknown" in report["ballast_summary"]
    assert engine.verify(Context(desired(lab=lab), host, PROGRESS)) == []
    report = engine.report(Context(desired(lab=lab), host))
    assert report["summary"]["addons"] == [{"name": "dns", "state": "ready"}, {"name": "storage", "state": "ready"}]
    assert "add-ons:     dns ready, storage ready" in report["ballast_summary"]
    assert "add-ons" not in table(summary(), g.lab())


def test_a_registry_is_shown_with_its_address() -> None:
    lab = g.lab(addons=["registry"])
    for state, shown in (
        ("ready", "registry ready at 10.97.0.11:5000"),
        ("no pod is ready", "registry: no pod is ready"),
    ):
        found = replace(summary(), addons=(AddonState("registry", state),))
        assert f"add-ons:     {shown}\n" in table(found, lab)


def test_published_ports_are_shown() -> None:
    lab = g.lab(topology={"publish": ["8080:30080", "53:30053/udp"]})
    node = lab["nodes"][0]["name"]
    assert f"published:   8080 to {node}:30080, 53/udp to {node}:30053\n" in table(summary(), lab)
    assert "published" not in table(summary(), g.lab())


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (workload(), "ready"),
        (workload(observedGeneration=0), "starting"),
        (workload(availableReplicas=0), "no pod is ready"),
        (workload(updatedReplicas=0), "no pod is ready"),
        (None, "absent"),
    ],
)
def test_a_lab_whose_add_on_does_not_run_is_not_well(found: Optional[dict[str, Any]], state: str) -> None:
    lab = g.lab(nodes=3, addons=["storage"])
    engine, host = CheckEngine(), machine(objects={} if found is None else {_STORAGE: found})
    findings = [(row.id, row.text) for row in engine.verify(Context(desired(lab=lab), host, PROGRESS))]
    assert findings == ([] if state == "ready" else [("lab-addon", f"the add-on storage is not ready ({state})")])
    report: Any = engine.report(Context(desired(lab=lab), host))
    assert report["summary"]["addons"] == [{"name": "storage", "state": state}]


def test_an_add_on_of_several_workloads_is_ready_when_all_are() -> None:
    lab = g.lab(nodes=3, addons=["load_balancer"])
    controller, speaker = ADDONS["load_balancer"].workloads
    daemons = {"observedGeneration": 1, "desiredNumberScheduled": 3, "numberReady": 3}
    for ready, state in ((3, "ready"), (2, "pods ready on 2 of 3 nodes")):
        found = {"kind": "DaemonSet", "metadata": {"generation": 1}, "status": {**daemons, "numberReady": ready}}
        engine, host = CheckEngine(), machine(objects={controller: workload(), speaker: found})
        findings = engine.verify(Context(desired(lab=lab), host, PROGRESS))
        assert ["daemonsets/metallb-speaker" in row.remedy for row in findings] == ([] if ready == 3 else [True])
        report: Any = engine.report(Context(desired(lab=lab), host))
        assert report["summary"]["addons"] == [{"name": "load_balancer", "state": state}]


@pytest.mark.parametrize(("count", "text"), [(0, None), (1, "1 NetworkPolicy,"), (2, "2 NetworkPolicies,")])
def test_network_policies_that_nothing_enforces_are_named(count: int, text: Optional[str]) -> None:
    host, engine = machine(), CheckEngine()
    items = [{"metadata": {"name": f"deny-{number}"}} for number in range(count)]
    host.answer(
        f"{g.API}/apis/networking.k8s.io/v1/networkpolicies", json_answer(200, {"metadata": {}, "items": items})
    )
    assert engine.verify(Context(desired(), host, PROGRESS)) == []
    report: Any = engine.report(Context(desired(), host))
    assert report["summary"]["network_policies"] == count
    assert (f"not enforced: {text}" in report["ballast_summary"]) is (text is not None)
    enforced = table(replace(summary(), network_policies=count), g.lab(addons=["network_policy"]))
    assert "not enforced" not in enforced


def test_a_name_that_is_not_resolved_is_another_finding_than_a_connection() -> None:
    lab = g.lab(nodes=3, addons=["dns"])
    (finding,) = CheckEngine().verify(Context(desired(lab=lab), machine(nameless="n2"), PROGRESS))
    assert (finding.id, finding.blocking) == ("lab-names", True)
    assert "n2" in finding.text
    assert "k8s-app=kube-dns" in finding.remedy


def test_connections_that_fail_are_counted_and_named() -> None:
    [finding] = CheckEngine().verify(Context(desired(), machine(deaf="n2"), PROGRESS))
    assert (finding.id, finding.blocking) == ("lab-connectivity", True)
    assert "3 of 9 connections failed" in finding.text
    assert "ip netns exec ballast-lab-n2 nft list ruleset" in finding.remedy


def test_pods_that_do_not_run_are_told() -> None:
    host = machine()
    host.answer(
        PODS, json_answer(200, {"items": [pod("n1"), pod("n2"), pod("n3", ready=False, waiting="ErrImageNeverPull")]})
    )
    [finding] = CheckEngine().verify(Context(desired(), host, PROGRESS))
    assert finding.id == "lab-pods"
    assert "n3: ErrImageNeverPull" in finding.text
    host.answer(PODS, json_answer(503, {}))
    [finding] = CheckEngine().verify(Context(desired(), host, PROGRESS))
    assert "status 503" in finding.text


def test_an_api_server_that_is_gone_for_a_moment_is_asked_again() -> None:
    """As while another member of the control plane takes over."""
    host, asked = machine(), 0
    listed = json_answer(200, {"items": [pod(f"n{n}", address=f"10.128.{n}.2") for n in (1, 2, 3)]})

    def answer(url: str, _body: Optional[bytes]) -> Response:
        nonlocal asked
        asked += 1
        if asked in (1, 3):  # while pods are waited for, and while they connect
            raise no_answer_error("GET", url, ConnectionRefusedError("Connection refused"))
        return listed

    host.answer(f"{PODS}?", answer)
    assert CheckEngine().verify(Context(desired(), host, PROGRESS)) == []
    assert asked == 3


def test_a_service_that_is_absent_is_told() -> None:
    host = machine()
    host.answer(SERVICE, json_answer(404, {}))
    [finding] = CheckEngine().verify(Context(desired(), host, PROGRESS))
    assert (finding.id, "404 for the Service echo" in finding.text) == ("lab-pods", True)


def test_without_a_control_plane_there_is_no_lab() -> None:
    with pytest.raises(BallastError) as caught:
        CheckEngine().verify(Context(desired(), FakeHost(), PROGRESS))
    assert caught.value.id == "lab-none"


def test_the_objects_are_applied_once_and_again_when_they_are_changed() -> None:
    objects: dict[str, Any] = {}
    host, engine = machine(objects=objects), CheckEngine()
    host.answer(
        SERVICE,
        lambda url, body: (
            json_answer(200, objects[url[len(g.API) :]]) if url[len(g.API) :] in objects else json_answer(404, {})
        ),
    )
    apply(engine, desired(), host)
    assert set(objects) == set(MANIFESTS)
    assert host.readlink(f"{g.DIR}/bin") == "/opt/kubernetes"
    done = len(host.effects)
    apply(engine, desired(), host)
    assert host.effects[done:] == []
    daemonset = next(path for path in objects if "daemonsets" in path)
    objects[daemonset]["metadata"]["annotations"] = {}
    assert [step.title for step in apply(engine, desired(), host).steps] == ["DaemonSet echo"]


def test_an_object_that_the_api_refuses_is_an_error() -> None:
    host = machine()
    host.answer(g.API, json_answer(403, {"message": "forbidden"}), method="PATCH")
    with pytest.raises(BallastError) as caught:
        apply(CheckEngine(), desired(), host)
    assert (caught.value.id, "forbidden" in caught.value.found) == ("lab-pods", True)


def test_the_status_of_a_lab_is_what_it_is_now_without_a_change() -> None:
    host = machine(deaf="n2")
    report = read_status(Context(desired(), host))
    assert "connections: " in str(report["ballast_summary"])
    changes = [effect for effect in host.effects if effect.verb != "run" and "/proxy/" not in effect.target]
    assert changes == []
    for answer in (json_answer(404, {}), json_answer(503, {})):
        host.answer(SERVICE, answer)
        assert read_status(Context(desired(), host))["summary"]["nodes"][0]["pod_ip"] == "10.128.1.2"
    stopped = FakeHost(files={record_path(f"{g.DIR}/plane"): g.plane_record().as_text()})
    assert read_status(Context(desired(), stopped))["summary"]["connectivity"] == {"pairs": 9, "passed": 0}
    assert read_status(Context(desired(), FakeHost()))["summary"]["connectivity"] == {"pairs": 9, "passed": 0}


def test_every_id_of_the_table_is_raised_by_the_code_and_tried_by_a_test() -> None:
    sources = (ROOT / "plugins/module_utils/_lab").rglob("*.py")
    code = "".join(path.read_text() for path in sources if path.stem != "messages")
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    assert [id for id in MESSAGES.rows if f'"{id}"' not in code] == []
    assert [id for id in MESSAGES.rows if f'"{id}"' not in tests] == []
    assert set(re.findall(r'(?:error\(|add\(|value=|key=)\s*"(lab-[a-z-]+)"', code)) == set(MESSAGES.rows)


@pytest.mark.parametrize("state", ["stopped", "degraded"])
def test_a_lab_that_does_not_run_shows_no_old_figures_and_the_command_that_starts_it(state: str) -> None:
    plane = {"state": state, "ready_seconds": 2.6, "rss_bytes": 0}
    report = read_status(Context(desired(control_plane=plane), FakeHost()))
    assert report["summary"]["control_plane"] == {"state": state, "ready_seconds": None, "rss_bytes": 0, "members": []}
    *_table, measured, start, _remove = report["ballast_summary"].splitlines()
    assert measured == f"connections: 0 of 9 passed; control plane: {state}"
    assert start == "start it:    ansible-playbook ballast.kube.lab_up"
