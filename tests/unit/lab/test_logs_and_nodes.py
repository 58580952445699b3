# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, PeerError
from ansible_collections.ballast.kube.plugins.module_utils._lab.logs import collect
from ansible_collections.ballast.kube.plugins.module_utils._lab.nodes import ENGINE, NodesRequest
from tests.unit.cases import apply, plan_of
from tests.unit.fakes import Answer, Call, FakeHost, json_answer
from tests.unit.lab import given as g

SECRET = "do-not-show"
NODES = f"{g.API}/api/v1/nodes"


def archive(host: FakeHost) -> dict[str, str]:
    path = collect(host, f"{g.DIR}/")
    assert host.mode(path) == 0o600
    assert host.mode(f"{g.DIR}/logs") == 0o700
    with tarfile.open(fileobj=io.BytesIO(host.read(path) or b"")) as found:
        return {
            member.name.partition("/")[2]: (found.extractfile(member) or io.BytesIO()).read().decode()
            for member in found.getmembers()
        }


def lab_with_secrets() -> FakeHost:
    host = g.machine({f"{g.DIR}/lab.json": json.dumps(g.lab(nodes=1))})
    for name in (
        "admin.kubeconfig",
        "plane/pki/sa.key",
        "plane/pki/admin.crt",
        "plane/pki/x.log",
        "plane/etcd/member/wal.log",
        "plane/ledger.jsonl",
        "nodes/ledger.jsonl",
        "nodes/n1/pki/kubelet.key",
        "nodes/n1/pki/kubelet.crt",
        "nodes/n1/etc/kubelet.kubeconfig",
        "nodes/n1/kubelet/pods/p/volumes/secret/app.log",
        "nodes/n1/containerd/layer/app.log",
        "vms/ssh_key",
        "vms/ssh_key.pub",
        "archives/x.log",
        "logs/lab-earlier.log",
        "notes.txt",
    ):
        host.given(f"{g.DIR}/{name}", SECRET)
    for name in (
        "events.jsonl",
        "nodes/n1/log/kubelet.log",
        "nodes/n1/log/pods/a/0.log",
        "nodes/n1/sv/supervisor.log",
        "vms/vm1/console.log",
    ):
        host.given(f"{g.DIR}/{name}", f"{name} is told\n")
    return host


def test_no_key_certificate_or_kubeconfig_is_ever_in_the_archive() -> None:
    host = lab_with_secrets()
    host.answer(g.API, json_answer(200, {"items": []}))
    found = archive(host)
    assert [name for name, text in found.items() if SECRET in text] == []
    assert [name for name in found if name.endswith((".key", ".crt", "kubeconfig", "ssh_key"))] == []
    assert {
        "lab.json",
        "events.jsonl",
        "nodes/n1/log/kubelet.log",
        "nodes/n1/log/pods/a/0.log",
        "vms/vm1/console.log",
    } <= set(found)
    assert found["nodes/n1/log/kubelet.log"] == "nodes/n1/log/kubelet.log is told\n"
    assert {"api/nodes.json", "api/pods.json", "api/events.json"} <= set(found)
    asked = [url for _method, url, _body in host.requests]
    assert [url for url in asked if "secrets" in url or "configmaps" in url] == []


def test_what_cannot_be_read_is_named() -> None:
    host = lab_with_secrets()
    host.given("/run/netns/ballast-lab-n1")
    host.on("ip", answer="1: lo\n", reads=True)
    host.on("nsenter", answer="2: eth0\n", reads=True)
    found = archive(host)
    assert "Connection refused" in found["api/nodes.json.missing"]
    assert "api/pods.json.missing" not in found, "the others would wait as long"
    assert "conntrack is not on this machine" in found["host/conntrack.missing"]
    assert found["host/addresses.txt"] == "1: lo\n"
    assert found["ballast-lab-n1/addresses.txt"] == "2: eth0\n"


def test_a_lab_of_kubeadm_is_collected_with_what_its_machines_said() -> None:
    made = g.lab(target="vm", bootstrap="kubeadm", hosts=2)
    host = FakeHost(files={f"{g.DIR}/lab.json": json.dumps(made), f"{g.DIR}/vms/vm1/host.log": "kubelet said\n"})
    host.given_ours(g.DIR, "lab")
    assert archive(host)["vms/vm1/host.log"] == "kubelet said\n"


@pytest.mark.parametrize("record", [None, "{"])
def test_a_lab_without_a_readable_record_is_collected_too(record: Optional[str]) -> None:
    host = FakeHost(files={f"{g.DIR}/nodes/n1/log/kubelet.log": "told\n"})
    host.given_ours(g.DIR, "lab")
    if record is not None:
        host.given(f"{g.DIR}/lab.json", record)
    found = archive(host)
    assert found["nodes/n1/log/kubelet.log"] == "told\n"
    assert ("lab-record" in found.get("lab.json.missing", "")) == (record is not None)


PLANTED = "c4n4ry-Xy7"


def lab_with_planted_secrets() -> FakeHost:
    """A lab beside other things of its machine, with a secret in every place that the archive could take from."""
    host = lab_with_secrets()
    record = {**g.lab(nodes=1), "topology": {"name": "lab", "note": {"registry_password": PLANTED}}}
    host.given(f"{g.DIR}/lab.json", json.dumps(record))
    host.given(f"{g.DIR}/events.jsonl", json.dumps({"text": f"GET http://u:{PLANTED}@h/: no"}) + f"\ntoken={PLANTED}\n")
    host.given(
        f"{g.DIR}/nodes/n1/log/kubelet.log", f"pulled\nAuthorization: Bearer {PLANTED}\npassword={PLANTED} x=1\n"
    )
    for name in (
        "theirs.log",
        "nodes/n1/theirs.jsonl",
        "plane/log/audit.log",
        "nodes/n1/kubelet/pods/a.log",
        "vms/vm1/x.log",
    ):
        host.given(f"{g.DIR}/{name}", PLANTED)
    host.given("/srv/theirs.log", PLANTED)
    host.symlink(f"{g.DIR}/nodes/n1/log/containerd.log", "/srv/theirs.log")
    host.on("ps", answer=f"1 x --password {PLANTED}\n", reads=True)
    host.on("dmesg", answer=f"Command line: ballast.token={PLANTED} quiet\n", reads=True)
    host.given_cgroup("/sys/fs/cgroup/ballast-lab-n1/kubelet")
    host.given_cgroup("/sys/fs/cgroup/ballast-lab-n1/kubepods/pod1")
    host.given_cgroup("/sys/fs/cgroup/theirs")
    for place, argv in (
        ("ballast-lab-n1/kubelet", ["/opt/kubelet", "--config=/x", f"--bootstrap-token={PLANTED}"]),
        ("ballast-lab-n1/kubepods/pod1", ["pod", PLANTED]),
        ("theirs", ["kubelet", PLANTED]),
    ):
        pid = host.given_process(argv)
        host.given(f"/sys/fs/cgroup/{place}/cgroup.procs", f"{pid}\n")
        host.given(f"/proc/{pid}/environ", f"TOKEN={PLANTED}\0")
    container = {
        "name": "c",
        "image": "busybox",
        "env": [{"name": "A", "value": PLANTED}],
        "command": [PLANTED],
        "args": [PLANTED],
    }
    metadata = {"name": "p", "annotations": {"last": PLANTED}, "managedFields": [{"x": PLANTED}]}
    pod = {"metadata": metadata, "spec": {"containers": [container], "initContainers": [container]}}
    host.answer(g.API, json_answer(200, {"items": [pod]}))
    return host


def test_a_secret_that_was_planted_anywhere_is_not_in_the_archive() -> None:
    found = archive(lab_with_planted_secrets())
    assert [name for name, text in found.items() if PLANTED in text] == []
    assert json.loads(found["api/pods.json"])["items"][0]["metadata"]["name"] == "p"
    assert "pulled\n" in found["nodes/n1/log/kubelet.log"]
    assert "x=1\n" in found["nodes/n1/log/kubelet.log"]


def test_the_archive_holds_the_labs_own_processes_and_logs_alone() -> None:
    found = archive(lab_with_planted_secrets())
    rows = found["host/processes.txt"].splitlines()[1:]
    assert [row.partition(" /")[2] for row in rows] == ["opt/kubelet --config=/x --bootstrap-token=(redacted)"]
    assert {name for name in found if name.endswith((".log", ".jsonl"))} == {
        "events.jsonl",
        "nodes/n1/log/kubelet.log",
        "nodes/n1/log/pods/a/0.log",
        "nodes/n1/sv/supervisor.log",
        "vms/vm1/console.log",
    }


def test_the_archive_has_the_logs_of_every_member_of_the_control_plane() -> None:
    host = lab_with_secrets()
    names = ["plane/log/etcd-2.log", "plane/log/haproxy.log", "plane/log/kube-apiserver-5.log"]
    for name in names:
        host.given(f"{g.DIR}/{name}", "a line\n")
    assert [name for name in names if name not in archive(host)] == []


def test_archives_of_one_second_do_not_replace_each_other() -> None:
    host = FakeHost(files={f"{g.DIR}/events.jsonl": ""})
    host.given_ours(g.DIR, "lab")
    paths = {collect(host, g.DIR) for _number in range(3)}
    assert len(paths) == 3


def test_what_the_api_lists_is_bounded() -> None:
    host = lab_with_secrets()
    host.answer(g.API, json_answer(200, {"items": [{"metadata": {"name": "x" * 17 * 2**20}}]}))
    assert archive(host)["api/pods.json"].startswith("left out: ")


def test_nothing_is_collected_of_a_directory_of_others() -> None:
    host = FakeHost(files={"/srv/project/app.log": SECRET})
    assert collect(host, "/srv/project") == ""
    assert host.effects == []


def test_the_end_of_a_long_log_is_kept() -> None:
    host = FakeHost()
    host.given_ours(g.DIR, "lab")
    host.given(f"{g.DIR}/nodes/n1/log/kubelet.log", "x" * 5 * 2**20 + "the end")
    text = archive(host)["nodes/n1/log/kubelet.log"]
    assert len(text) == 4 * 2**20
    assert text.endswith("the end")


KUBERNETES_TAINT = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


class Api:
    """Nodes as an API server keeps them: a merge patch replaces lists and removes what is null."""

    def __init__(self, host: FakeHost, *names: str) -> None:
        labels = {"kubernetes.io/hostname": "x", "beta.kubernetes.io/os": "linux"}
        self.nodes: dict[str, dict[str, Any]] = {
            name: {"metadata": {"labels": dict(labels)}, "spec": {"taints": [dict(KUBERNETES_TAINT)]}} for name in names
        }
        self.patches: list[dict[str, Any]] = []
        self.status = 200
        host.answer(NODES, self._get)
        host.answer(NODES, self._patch, method="PATCH")
        host.answer(NODES, self._delete, method="DELETE")

    def _get(self, url: str, _body: Optional[bytes]) -> Response:
        node = self.nodes.get(url.rpartition("/")[2])
        return json_answer(404, {}) if node is None else json_answer(200, node)

    def _patch(self, url: str, body: Optional[bytes]) -> Response:
        patch = json.loads(body or b"{}")
        self.patches.append(patch)
        if self.status == 200:
            node = self.nodes[url.rpartition("/")[2]]
            labels = {**node["metadata"]["labels"], **patch.get("metadata", {}).get("labels", {})}
            node["metadata"]["labels"] = {key: value for key, value in labels.items() if value is not None}
            spec = {**node["spec"], **patch["spec"]}
            node["spec"] = {key: value for key, value in spec.items() if value is not None}
        return json_answer(self.status, {"message": "no"})

    def _delete(self, url: str, _body: Optional[bytes]) -> Response:
        return json_answer(200 if self.nodes.pop(url.rpartition("/")[2], None) else 404, {})


def wanted(*nodes: dict[str, Any]) -> NodesRequest:
    rows = [{"labels": None, "taints": None, **node} for node in nodes]
    given = {
        "state_dir": f"{g.DIR}/api",
        "plane_dir": f"{g.DIR}/plane/",
        "kubectl": "/opt/kubernetes/kubectl",
        "nodes": rows,
    }
    return NodesRequest.from_params(given)


TAINT = {"key": "example.org/only", "value": None, "effect": "NoSchedule"}


def test_labels_and_taints_of_a_running_node_follow_the_topology() -> None:
    host = g.machine()
    api = Api(host, "n1")
    apply(ENGINE, wanted({"name": "n1", "labels": {"disk": "ssd", "rack": 1}, "taints": [TAINT]}), host)
    assert api.nodes["n1"]["metadata"]["labels"] == {
        "kubernetes.io/hostname": "x",
        "beta.kubernetes.io/os": "linux",
        "disk": "ssd",
        "rack": "1",
    }
    assert api.nodes["n1"]["spec"]["taints"] == [
        KUBERNETES_TAINT,
        {"key": "example.org/only", "value": "", "effect": "NoSchedule"},
    ]
    assert (
        plan_of(ENGINE, wanted({"name": "n1", "labels": {"disk": "ssd", "rack": 1}, "taints": [TAINT]}), host).steps
        == ()
    )
    apply(ENGINE, wanted({"name": "n1", "labels": {"disk": "hdd"}}), host)
    assert api.patches[-1] == {
        "metadata": {"labels": {"rack": None, "disk": "hdd"}},
        "spec": {"taints": [KUBERNETES_TAINT]},
    }
    assert plan_of(ENGINE, wanted({"name": "n1", "labels": {"disk": "hdd"}}), host).steps == ()


def test_keys_of_kubernetes_are_never_touched() -> None:
    host = g.machine()
    api = Api(host, "n1")
    own = {
        "topology.kubernetes.io/zone": "a",
        "ballast.kube/kube-proxy-mode": "nftables",
        "x.k8s.io/y": "b",
        "k8s.io/z": "c",
    }
    apply(ENGINE, wanted({"name": "n1", "labels": own, "taints": [{**TAINT, "key": "node.kubernetes.io/x"}]}), host)
    assert api.patches == []
    apply(ENGINE, wanted({"name": "n1", "labels": {"notkubernetes.io/a": "b"}}), host)
    assert api.patches[-1]["metadata"]["labels"] == {"notkubernetes.io/a": "b"}


def test_a_node_that_has_not_registered_is_left_to_its_kubelet() -> None:
    host = g.machine()
    api = Api(host)
    request = wanted({"name": "n1", "labels": {"a": "b"}})
    apply(ENGINE, request, host)
    assert api.patches == []
    assert ENGINE.verify(Context(request, host)) == []


def registered(host: FakeHost, *names: str) -> Api:
    """Nodes whose kubelets registered them after the lab asked for them."""
    Api(host)
    apply(ENGINE, wanted(*({"name": name} for name in names)), host)
    return Api(host, *names)


def test_a_node_is_drained_before_it_is_deleted() -> None:
    host = g.machine()
    api = registered(host, "n1", "n2")
    host.on("/opt/kubernetes/kubectl", answer="")
    begun = len(host.effects)
    apply(ENGINE, wanted({"name": "n1"}), host)
    drain, delete, *policy = [str(effect) for effect in host.effects[begun:] if effect.verb in ("run", "request")]
    assert f"--kubeconfig {g.DIR}/plane/pki/ballast-lab-nodes-" in drain
    assert not [name for name in host.listdir(f"{g.DIR}/plane/pki") if "kubeconfig" in name]
    assert " drain n2 --ignore-daemonsets --delete-emptydir-data --force " in drain
    assert " --timeout=60s" in drain
    assert delete == f"request DELETE {NODES}/n2"
    assert list(api.nodes) == ["n1"]
    assert [effect.split("/")[-1].partition("?")[0] for effect in policy] == ["ballast-departed-nodes"] * 2


def test_programs_that_moved_remove_no_node() -> None:
    host = g.machine()
    api = registered(host, "n1", "n2")
    request = wanted({"name": "n1"}, {"name": "n2"})
    assert apply(ENGINE, replace(request, kubectl="/opt/newer/kubectl"), host).steps == ()
    assert list(api.nodes) == ["n1", "n2"]


def test_what_a_node_that_left_writes_is_refused_until_it_joins_again() -> None:
    host = g.machine()
    api = registered(host, "n1", "n2", "n3")
    host.on("/opt/kubernetes/kubectl", answer="")
    apply(ENGINE, wanted({"name": "n1"}), host)
    condition = 'request.userInfo.username in ["system:node:n2", "system:node:n3"]'
    assert [one["expression"] for one in g.refused(host)["matchConditions"]] == [condition]
    assert [one["expression"] for one in g.refused(host)["validations"]] == ["false"]
    apply(ENGINE, wanted({"name": "n1"}, {"name": "n3"}), host)
    condition = 'request.userInfo.username in ["system:node:n2"]'
    assert [one["expression"] for one in g.refused(host)["matchConditions"]] == [condition]
    assert list(api.nodes) == ["n1"]  # its kubelet registers it


def test_an_api_server_without_admission_policies_loses_nodes_all_the_same() -> None:
    host = g.machine()
    api = registered(host, "n1", "n2")
    host.on("/opt/kubernetes/kubectl", answer="")
    host.answer(g.POLICIES, json_answer(404, {}), method="PATCH")
    apply(ENGINE, wanted({"name": "n1"}), host)
    assert list(api.nodes) == ["n1"]


@pytest.mark.parametrize("cordoned", [False, True], ids=["in-use", "cordoned-by-its-user"])
def test_a_node_that_cannot_be_drained_stays_as_it_was(cordoned: bool) -> None:
    host = g.machine()
    api = registered(host, "n1", "n2")
    api.nodes["n2"]["spec"] = {"unschedulable": True} if cordoned else {}

    def drain(_call: Call) -> Answer:
        api.nodes["n2"]["spec"]["unschedulable"] = True
        return 1

    host.on("/opt/kubernetes/kubectl", answer=drain)
    with pytest.raises(BallastError) as caught:
        apply(ENGINE, wanted({"name": "n1"}), host)
    assert caught.value.id == "lab-node-drain"
    assert list(api.nodes) == ["n1", "n2"]
    assert bool(api.nodes["n2"]["spec"].get("unschedulable")) is cordoned
    host.on("/opt/kubernetes/kubectl", answer="")
    apply(ENGINE, wanted({"name": "n1"}), host)
    assert list(api.nodes) == ["n1"]


def test_a_node_whose_drain_is_interrupted_takes_pods_again() -> None:
    """As at Ctrl-C. A later run that keeps the node has nothing to do, and would leave it cordoned."""
    host = g.machine()
    api = registered(host, "n1", "n2")
    api.nodes["n2"]["spec"] = {}

    def drain(_call: Call) -> Answer:
        api.nodes["n2"]["spec"]["unschedulable"] = True
        raise KeyboardInterrupt

    host.on("/opt/kubernetes/kubectl", answer=drain)
    with pytest.raises(BallastError) as caught:
        apply(ENGINE, wanted({"name": "n1"}), host)
    assert caught.value.id == "core-interrupted"
    assert not api.nodes["n2"]["spec"].get("unschedulable")


def test_a_change_that_the_api_refuses_is_told() -> None:
    host = g.machine()
    api = Api(host, "n1")
    api.status = 422
    with pytest.raises(PeerError) as caught:
        apply(ENGINE, wanted({"name": "n1", "labels": {"a": "b"}}), host)
    assert caught.value.id == "lab-node"
    assert caught.value.found.startswith("422: no")


def test_without_a_control_plane_nothing_is_asked() -> None:
    host = FakeHost()
    apply(ENGINE, wanted({"name": "n1"}), host)
    apply(ENGINE, wanted(), host)
    assert host.requests == []
    assert ENGINE.verify(Context(wanted(), host)) == []  # type: ignore[arg-type]
    assert ENGINE.report(Context(wanted(), host)) == {}
