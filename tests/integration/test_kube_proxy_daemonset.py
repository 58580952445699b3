# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A lab whose kube-proxy is run by a DaemonSet, and its nodes moved to another mode one by one.

The tests of this file run in order, on one lab of two nodes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Api
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import parse_credentials
from tests.integration import adhoc
from tests.integration.lab import Lab, lab_named, processes_of

HAD_MODULES = os.path.exists("/lib/modules")  # a pod mounts it
LABEL = "ballast.kube/kube-proxy-mode"
TOPOLOGY = {
    "kube_proxy": "daemonset",
    "defaults": {"proxy_backend": "iptables", "memory": "1Gi"},
    "nodes": [{"name": "first"}, {"name": "second"}],
}
# Connects to a Service: says so when it can at last, then goes on until its input ends, and says how often it could and could
# not. (kube-proxy says its mode before its rules are there.)
LOAD = """
import select, socket, sys, time
well = ill = 0
while not select.select([sys.stdin], [], [], 0.02)[0]:
    try:
        socket.create_connection((sys.argv[1], 80), timeout=1).close()
        if not well:
            print("served", flush=True)
            ill = 0
        well += 1
    except OSError:
        ill += 1
print(well, ill)
"""

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a lab")]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with lab_named("kp-ds") as made:
        yield made


@pytest.fixture(scope="module")
def original(lab: Lab) -> dict[str, Any]:
    """The DaemonSet and the ConfigMap as the lab made them."""
    return {kind: spec_of(lab, kind) for kind in ("daemonset", "configmap")}


def module(lab: Lab, state: str, *arguments: str, fails: bool = False) -> dict[str, Any]:
    given = {"kubeconfig": bounded(lab), "mode": "nftables", "state": state}
    return adhoc.module("kube_proxy_daemonset", *arguments, fails=fails, **given)


def bounded(lab: Lab) -> str:
    """The kubeconfig of a client that may do what docs/permissions.md says that the module needs."""
    path = Path(f"{lab.directory}-bounded.kubeconfig")  # beside the lab's directory, which is the lab's alone
    if path.exists():
        return str(path)
    name, space = "bounded", ("-n", "kube-system")
    changes = ["get", "create", "update", "delete"]
    here = [
        {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": changes},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": changes},
        {"apiGroups": ["apps"], "resources": ["controllerrevisions"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch"]},
    ]
    nodes = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "patch"]}]
    version = "rbac.authorization.k8s.io/v1"
    for kind, rules in (("Role", here), ("ClusterRole", nodes)):
        role = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "rules": rules}
        file = path.with_suffix(".json")
        file.write_text(json.dumps(role), "utf-8")
        lab.kubectl(*space, "create", "-f", str(file))
        file.unlink()
    lab.kubectl(*space, "create", "serviceaccount", name)
    account = f"--serviceaccount=kube-system:{name}"
    lab.kubectl(*space, "create", "rolebinding", name, f"--role={name}", account)
    lab.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", account)
    token = lab.kubectl(*space, "create", "token", name, "--duration=6h").strip()
    whole = json.loads(Path(lab.directory, "admin.kubeconfig").read_text("utf-8"))
    whole["users"][0]["user"] = {"token": token}
    path.write_text(json.dumps(whole), "utf-8")
    return str(path)


def spec_of(lab: Lab, kind: str, name: str = "kube-proxy") -> dict[str, Any]:
    """What somebody may have set of it."""
    found = json.loads(lab.kubectl("-n", "kube-system", "get", kind, name, "-o", "json"))
    kept = {key: value for key, value in found["metadata"].items() if key in ("name", "labels", "annotations")}
    kept["annotations"].pop("deprecated.daemonset.template.generation", None)
    return {"metadata": kept, "spec": found.get("spec"), "data": found.get("data")}


def pods(lab: Lab) -> dict[str, tuple[str, str]]:
    """By node, the DaemonSet and the uid of each pod of kube-proxy that is not ending."""
    found = {}
    for pod in json.loads(lab.kubectl("-n", "kube-system", "get", "pods", "-o", "json"))["items"]:
        if not pod["metadata"].get("deletionTimestamp"):
            node, owner = pod["spec"]["nodeName"], pod["metadata"]["ownerReferences"][0]["name"]
            assert node not in found, "two of them"
            found[node] = (owner, pod["metadata"]["uid"])
    return found


def mode(lab: Lab, node: str) -> str:
    """In effect, as kube-proxy itself says."""
    code = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:10249/proxyMode', timeout=2).read().decode())"
    done = inside(lab, node, sys.executable, "-c", code)
    return done.stdout.strip()


def inside(lab: Lab, node: str, *argv: str) -> subprocess.CompletedProcess[str]:
    command = ["ip", "netns", "exec", f"ballast-{lab.name}-{node}", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def move(lab: Lab, node: str, wanted: Optional[str], *, runs: str) -> None:
    """By the kubelet's own identity, as kube_proxy does it on the node."""
    path = Path(lab.directory, "nodes", node, "etc/kubelet.kubeconfig")
    api = Api(LocalHost(), parse_credentials(path.read_text("utf-8"), base_dir=str(path.parent), name=str(path)))
    api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {LABEL: wanted}}})
    wait_until(lambda: mode(lab, node) == runs, f"{node} in mode {runs}")


def wait_until(holds: Callable[[], bool], what: str, *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} seconds: {what}"
        time.sleep(0.2)


def everybody_reaches_everybody(lab: Lab) -> None:
    """What `make lab` checks last; and it leaves nodes that are moved as they are."""
    running = pods(lab)
    run = lab.up()
    assert (run.status, run.changed) == (0, 0), run.output
    assert lab.summary["connectivity"] == {"pairs": 4, "passed": 4}
    assert pods(lab) == running


@contextmanager
def load(lab: Lab, node: str) -> Iterator[list[int]]:
    """Connections to a Service from a node; how many succeeded, and how many did not, is there afterwards."""
    address = lab.kubectl("-n", "ballast-lab", "get", "service", "echo", "-o", "jsonpath={.spec.clusterIP}")
    command = ["ip", "netns", "exec", f"ballast-{lab.name}-{node}", sys.executable, "-c", LOAD, address]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    counts: list[int] = []
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "served\n"
        yield counts
    finally:
        output, _nothing = process.communicate(input="", timeout=30)
        counts.extend(int(word) for word in output.split())


def test_a_daemonset_runs_kube_proxy_and_the_lab_is_used_as_any(lab: Lab, tmp_path: Path) -> None:
    topology = tmp_path / "two.yml"
    topology.write_text(json.dumps(TOPOLOGY), encoding="utf-8")
    run = lab.up(lab_topology=str(topology))
    assert run.status == 0, run.output
    assert lab.summary["connectivity"] == {"pairs": 4, "passed": 4}
    assert {node: owner for node, (owner, _uid) in pods(lab).items()} == {"first": "kube-proxy", "second": "kube-proxy"}
    assert [path for path in lab.services() if path.endswith("kube-proxy")] == []
    assert (mode(lab, "first"), mode(lab, "second")) == ("iptables", "iptables")


@contextmanager
def somebody_s_kube_proxy(lab: Lab, node: str) -> Iterator[int]:
    """A process of user nobody in the node's network, which calls itself kube-proxy and names a configuration of its own."""
    named = 'exec -a kube-proxy sh -c "sleep 300; :" sh --config=/tmp/evil.conf --hostname-override=evil'
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", named]
    process = subprocess.Popen(["ip", "netns", "exec", f"ballast-{lab.name}-{node}", *become])
    try:
        wait_until(lambda: b"kube-proxy" in Path(f"/proc/{process.pid}/cmdline").read_bytes()[:11], "named so")
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_a_node_s_kube_proxy_is_its_pod_s_beside_a_process_of_that_name(lab: Lab) -> None:
    inside = [f"--net=/run/netns/ballast-{lab.name}-first", f"--mount=/run/ballast/{lab.name}/first.mnt"]
    with somebody_s_kube_proxy(lab, "first"):
        found = adhoc.module(
            "kube_proxy_info",
            inside=["nsenter", *inside, "--"],
            deployment="daemonset",
            mode="nftables",
            audit_rules=True,
        )
    assert (found["node_name"], found["mode"], found["in_order"]) == ("first", "iptables", True), found["printed"]
    assert found["differences"] == []


def test_canaries_start_no_pod_anew(lab: Lab, original: dict[str, Any]) -> None:
    running = pods(lab)
    assert module(lab, "canary", "--check")["changed"]
    assert spec_of(lab, "daemonset") == original["daemonset"]
    assert module(lab, "canary")["changed"]
    assert not module(lab, "canary")["changed"]
    time.sleep(3)  # for the controller, if it had anything to do
    assert pods(lab) == running


def test_one_node_is_moved_by_its_label_and_the_other_is_left_alone(lab: Lab) -> None:
    second = pods(lab)["second"]
    move(lab, "first", "nftables", runs="nftables")
    assert pods(lab)["first"][0] == "kube-proxy-nftables"
    assert pods(lab)["second"] == second
    assert mode(lab, "second") == "iptables"
    everybody_reaches_everybody(lab)
    assert "second" in module(lab, "final", fails=True)["msg"]
    assert "first" in module(lab, "absent", fails=True)["msg"]


def test_absent_leaves_what_was_there_before_and_starts_nothing(lab: Lab, original: dict[str, Any]) -> None:
    move(lab, "first", None, runs="iptables")
    running = pods(lab)
    assert module(lab, "absent")["changed"]
    assert not module(lab, "absent")["changed"]
    time.sleep(3)
    assert pods(lab) == running
    assert {kind: spec_of(lab, kind) for kind in original} == original
    assert "nftables" not in lab.kubectl("-n", "kube-system", "get", "daemonsets,configmaps", "-o", "name")


def test_final_leaves_one_of_each_without_a_failed_connection(lab: Lab, original: dict[str, Any]) -> None:
    assert module(lab, "canary")["changed"]
    for node in ("first", "second"):
        move(lab, node, "nftables", runs="nftables")
    moved = pods(lab)
    with load(lab, "first") as counts:
        assert module(lab, "final")["changed"]
    assert counts[0] > 50
    assert counts[1] == 0
    running = pods(lab)
    assert {owner for owner, _uid in running.values()} == {"kube-proxy"}
    assert running != moved
    assert not module(lab, "final")["changed"]
    assert not module(lab, "canary")["changed"]
    time.sleep(3)
    assert pods(lab) == running, "each was started once"
    wait_until(lambda: {mode(lab, "first"), mode(lab, "second")} == {"nftables"}, "both in mode nftables")
    assert spec_of(lab, "daemonset") == original["daemonset"]
    config = json.loads(spec_of(lab, "configmap")["data"]["config.conf"])
    assert config == {**json.loads(original["configmap"]["data"]["config.conf"]), "mode": "nftables"}
    assert "nftables" not in lab.kubectl("-n", "kube-system", "get", "daemonsets,configmaps", "-o", "name")
    everybody_reaches_everybody(lab)


def test_down_leaves_nothing(lab: Lab) -> None:
    """Of this lab: others may come and go beside it. What they share is looked at in test_lab."""
    run = lab.down()
    assert run.status == 0, run.output
    assert not os.path.exists(lab.directory)
    assert list(processes_of(lab.directory)) == []
    assert list(Path("/sys/fs/cgroup").glob("**/*kp_ds*")) == []
    assert os.path.exists("/lib/modules") == HAD_MODULES
