# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two kubelets of a virtual machine divide it by balloons, and give everything back, by the command that an operator types.

The tests are one story and run in this order. The API server is asked as Kubernetes' own clients ask it; what of it is a
balloon, and what its node may promise, is read by the collection's own reader, which has tests of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import pytest
import testinfra
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import SETTLED, TAINT, Fleet, Node
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.reading import read_fleet
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import MIB, Resources, total
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.sizing import with_reserves
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Api
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import parse_credentials
from tests.integration.lab import Run

SCENARIO = Path(__file__).resolve().parents[1]
ROOT = SCENARIO.parents[1]
INVENTORY = SCENARIO / "inventory/lab.yml"
LAB_DIR = Path(yaml.safe_load(INVENTORY.read_text(encoding="utf-8"))["lab_dir"])
LAB = json.loads((LAB_DIR / "lab.json").read_text(encoding="utf-8"))
MACHINE = LAB["hosts"][0]
NODES = [one for one in LAB["nodes"] if one["host"] == MACHINE["name"]]
ONE, TWO = (one["name"] for one in NODES)
KUBECONFIG = LAB_DIR / "admin.kubeconfig"
IMAGE = "ballast.local/pause:1"  # of the lab; it needs no registry
NAME, NAMESPACE = "ballast-balloon", "ballast-balloons"
COMMON = {"balloons_hosts": f"{ONE},{TWO}", "balloons_confirm": True, "balloons_image": IMAGE}
_ON_MACHINE = "/run/ballast-test.kubeconfig"
_RUN_SECONDS = 600
_SECONDS = 180
_STEP = Resources(100, 64 * MIB)


@dataclass
class Sums:
    """What all nodes of the machine were seen to promise together, each time the API server was asked."""

    seen: list[Resources] = field(default_factory=list)

    @property
    def most(self) -> Resources:
        most = self.seen[0]
        for one in self.seen:
            most = most.most(one)
        return most


def api() -> Api:
    return Api(LocalHost(), parse_credentials(KUBECONFIG.read_text(encoding="utf-8"), base_dir="/", name="admin"))


def fleet() -> Fleet:
    client = api()
    nodes, pods = client.list("/api/v1/nodes").items, client.list("/api/v1/pods").items
    return with_reserves(read_fleet(nodes, pods, namespace=NAMESPACE).fleet, None)


def node(name: str) -> Node:
    return fleet().nodes[name]


def room() -> Resources:
    found = fleet()
    return found.unreserved(found.nodes[ONE].host)


def open_of(found: Fleet) -> Resources:
    return total(found.nodes[name].schedulable for name in (ONE, TWO))


def is_held(name: str, target: Resources) -> bool:
    found = node(name)
    there = found.balloon
    return there is not None and there.state == SETTLED and there.desired == found.balloon_for(target)


def eventually(holds: Callable[[], bool], seconds: float = _SECONDS) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


@contextmanager
def watched() -> Iterator[Sums]:
    """The sums of the time in between."""
    sums, over = Sums(), threading.Event()

    def look() -> None:
        while not over.wait(0.3):
            sums.seen.append(open_of(fleet()))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield sums
    finally:
        over.set()
        thread.join()


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """The playbook, with variables of each node in an inventory of their own."""
    path = tmp_path_factory.mktemp("inventory") / "sizes.json"

    def run(*arguments: str, nodes: Optional[dict[str, dict[str, Any]]] = None, **variables: object) -> Run:
        path.write_text(json.dumps({"all": {"hosts": nodes or {ONE: {}, TWO: {}}}}), encoding="utf-8")
        return playbook(path, *arguments, **{**COMMON, **variables})

    return run


def playbook(sizes: Path, *arguments: str, **variables: object) -> Run:
    given = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build/collections"),
        "ANSIBLE_FORCE_COLOR": "0",
    }
    program = str(Path(sys.executable).parent / "ansible-playbook")
    inventories = ["-i", str(INVENTORY), "-i", str(sizes)]
    argv = [program, "ballast.kube.balloons", *inventories, "-e", json.dumps(variables), *arguments]
    done = subprocess.run(argv, cwd=ROOT, env=given, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False)
    sys.stdout.write(done.stdout + done.stderr)
    return Run(done.returncode, done.stdout + done.stderr)


def targets(one: Resources, two: Resources) -> dict[str, dict[str, Any]]:
    return {name: {"balloons_target": size.as_quantities()} for name, size in ((ONE, one), (TWO, two))}


def halves() -> tuple[Resources, Resources]:
    """In whole steps, so that the tests can move by steps."""
    part = room()
    half = Resources(part.cpu // 2, part.memory // 2 // MIB * MIB)
    return half, half


def machine() -> testinfra.host.Host:
    known = LAB_DIR / "vms" / "known_hosts"
    return testinfra.get_host(
        f"ssh://{MACHINE['user']}@{MACHINE['address']}",
        ssh_identity_file=MACHINE["ssh_key"],
        ssh_extra_args=f"-o UserKnownHostsFile={known} -o StrictHostKeyChecking=yes",
    )


def kubectl(*words: str, given: object = None) -> str:
    argv = [f"{LAB_DIR}/bin/kubectl", f"--kubeconfig={KUBECONFIG}", *words]
    text = None if given is None else json.dumps(given)
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def made() -> set[str]:
    """What of ours is in the cluster."""
    kinds = "daemonset,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding,priorityclass,lease"
    names = kubectl("get", kinds, "-n", NAMESPACE, "-l", "app.kubernetes.io/managed-by=ballast", "-o", "name")
    return {name for name in names.split() if NAME in name}


def workload(name: str, on: str, size: Resources) -> dict[str, Any]:
    resources = {"requests": size.as_quantities()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"of": "balloons"}},
        "spec": {
            "nodeName": on,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "one", "image": IMAGE, "imagePullPolicy": "Never", "resources": resources}],
        },
    }


def workloads() -> dict[str, tuple[str, str, int]]:
    """Of each pod that is no balloon: the node, the phase, how often its container was restarted."""
    told = json.loads(kubectl("get", "pods", "-l", "of=balloons", "-o", "json"))["items"]
    return {
        one["metadata"]["name"]: (
            one["spec"]["nodeName"],
            one["status"]["phase"],
            sum(row["restartCount"] for row in one["status"].get("containerStatuses", [])),
        )
        for one in told
    }


@pytest.fixture(scope="module")
def pods() -> Iterator[dict[str, tuple[str, str, int]]]:
    """A pod on each node, which runs until the story is over."""
    rows = [workload(f"work-{name}", name, Resources(100, 32 * MIB)) for name in (ONE, TWO)]
    kubectl("create", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": rows})
    wanted = {f"work-{name}": (name, "Running", 0) for name in (ONE, TWO)}
    try:
        assert eventually(lambda: workloads() == wanted), workloads()
        yield wanted
    finally:
        kubectl("delete", "pods", "-l", "of=balloons", "--grace-period=0", "--force", "--wait=true")


def test_who_does_not_confirm_changes_nothing(sized: Callable[..., Run]) -> None:
    done = sized(nodes={ONE: {"balloons_share": "1/2"}, TWO: {"balloons_share": "1/2"}}, balloons_confirm=False)
    assert done.status == 0
    assert f"make DaemonSet {NAME}" in done.output
    assert "-e balloons_confirm=true" in done.output
    assert made() == set()


def test_shares_that_are_more_than_the_machine_are_refused(sized: Callable[..., Run]) -> None:
    done = sized(nodes={ONE: {"balloons_share": "2/3"}, TWO: {"balloons_share": "1/2"}})
    assert done.status != 0
    assert "balloon-shares-over" in done.output
    assert made() == set()


def test_node_critical_is_refused_where_a_kubelet_would_kill_for_it(sized: Callable[..., Run]) -> None:
    """The lab's kubelets have no gate for it, nor has its API server."""
    done = sized(
        nodes={ONE: {"balloons_share": "1/2"}, TWO: {"balloons_share": "1/2"}}, balloons_priority="node-critical"
    )
    assert done.status != 0
    assert "balloon-critical-gate" in done.output
    assert "balloon-critical-dropped" in done.output
    assert made() == set()


def test_two_nodes_are_a_half_of_their_machine_each(sized: Callable[..., Run], pods: dict[str, Any]) -> None:
    assert not open_of(fleet()).fits_in(room()), "each kubelet promises the whole machine"
    done = sized(nodes={ONE: {"balloons_share": "1/2"}, TWO: {"balloons_share": "1/2"}})
    assert done.status == 0
    found = fleet()
    assert open_of(found).fits_in(room())
    for one in (found.nodes[name] for name in (ONE, TWO)):
        assert one.target is not None
        assert is_held(one.name, one.target)
        assert one.schedulable.fits_in(one.target), "the balloon is rounded up"
    assert workloads() == pods


def test_a_second_run_changes_nothing(sized: Callable[..., Run]) -> None:
    done = sized(nodes={ONE: {"balloons_share": "1/2"}, TWO: {"balloons_share": "1/2"}})
    assert done.status == 0
    assert done.changed == 0
    assert "nothing to change" in done.output


def test_a_node_shrinks_and_the_other_grows(sized: Callable[..., Run], pods: dict[str, Any]) -> None:
    one, two = halves()
    smaller, larger = one - _STEP, two + _STEP
    with watched() as sums:
        assert sized(nodes=targets(smaller, larger)).status == 0
    assert is_held(ONE, smaller)
    assert is_held(TWO, larger)
    assert sums.most.fits_in(room()), "no moment in which the machine was promised twice"
    assert workloads() == pods


def test_two_nodes_trade(sized: Callable[..., Run], pods: dict[str, Any]) -> None:
    """One gives CPU and takes memory, the other the reverse."""
    one, two = halves()
    cpu, memory = Resources(_STEP.cpu, 0), Resources(0, _STEP.memory)
    first, second = one - cpu + memory, two + cpu - memory
    with watched() as sums:
        assert sized(nodes=targets(first, second)).status == 0
    assert is_held(ONE, first)
    assert is_held(TWO, second)
    assert sums.most.fits_in(room())
    assert workloads() == pods


def test_room_that_pods_hold_is_not_taken(sized: Callable[..., Run], pods: dict[str, Any]) -> None:
    before = {name: node(name).schedulable for name in (ONE, TWO)}
    much = Resources(before[ONE].cpu - 150, 32 * MIB)
    kubectl("create", "-f", "-", given=workload("much", ONE, much))
    try:
        assert eventually(lambda: workloads().get("much") == (ONE, "Running", 0)), workloads()
        less = Resources(before[ONE].cpu - 200, before[ONE].memory)
        done = sized(nodes=targets(less, before[TWO]), balloons_grow_timeout=5)
        assert done.status != 0
        assert "reverted" in done.output
        assert is_held(ONE, before[ONE]), "it was put back"
        assert workloads() == {**pods, "much": (ONE, "Running", 0)}
        events = kubectl("get", "events", "-A", "-o", "jsonpath={.items[*].reason}").split()
        assert not {"Preempted", "Preempting", "Evicted"} & set(events)
    finally:
        kubectl("delete", "pod", "much", "--grace-period=0", "--force", "--wait=true")


@pytest.fixture(scope="module")
def slices() -> Iterator[list[str]]:
    """A kubeconfig on the machine; and its slices as the lab made them, before and after."""
    names = [
        f"{'-'.join(['ballast', *(part.replace('-', '_') for part in (LAB['name'], name))])}.slice"
        for name in (ONE, TWO)
    ]
    files = {name: machine().file(f"/etc/systemd/system/{name}").content_string for name in names}
    text = KUBECONFIG.read_text(encoding="utf-8")
    on_machine(f"umask 077; cat > {_ON_MACHINE}", text)
    try:
        yield names
    finally:
        on_machine(f"rm -f {_ON_MACHINE}")
        for name, content in files.items():
            rows = " ".join(f"'{row}'" for row in content.splitlines() if "=" in row)
            on_machine(
                f"systemctl set-property --runtime {name} {rows}; cat > /etc/systemd/system/{name}; "
                f"rm -rf /run/systemd/system.control/{name}.d; systemctl daemon-reload",
                content,
            )


def on_machine(script: str, text: str = "") -> None:
    """By ssh, the text on its stdin: a kubeconfig is not to be seen among the processes."""
    known = LAB_DIR / "vms" / "known_hosts"
    options = [f"UserKnownHostsFile={known}", "StrictHostKeyChecking=yes", "BatchMode=yes"]
    words = [word for option in options for word in ("-o", option)]
    argv = ["ssh", "-i", MACHINE["ssh_key"], *words, f"{MACHINE['user']}@{MACHINE['address']}", script]
    subprocess.run(argv, input=text, text=True, timeout=120, check=True)


def limit_of(name: str) -> Resources:
    path = machine().check_output("systemctl show -p ControlGroup --value %s", name)
    quota, period = machine().file(f"/sys/fs/cgroup{path}/cpu.max").content_string.split()
    memory = machine().file(f"/sys/fs/cgroup{path}/memory.max").content_string.strip()
    return Resources(int(quota) * 1000 // int(period), int(memory))


IN_STEP = {"balloons_slices": True, "balloons_kubeconfig": _ON_MACHINE}


def test_slices_are_moved_in_step(sized: Callable[..., Run], pods: dict[str, Any], slices: list[str]) -> None:
    """By the module on the machine, under cgroup v2 and systemd."""
    one, two = halves()
    for sizes in ((one, two), (one - _STEP, two + _STEP), (one + _STEP, two - _STEP)):
        with watched() as sums:
            assert sized(nodes=targets(*sizes), **IN_STEP).status == 0
        for name, slice_name, size in zip((ONE, TWO), slices, sizes):
            assert is_held(name, size)
            wanted = size + node(name).overhead
            rounded = wanted.memory - wanted.memory % 2**16
            assert limit_of(slice_name) == Resources(wanted.cpu, rounded)
        assert sums.most.fits_in(room())
    assert workloads() == pods


def test_the_reconciler_brings_a_balloon_back(sized: Callable[..., Run], slices: list[str]) -> None:
    one, two = halves()
    done = sized(
        nodes=targets(one, two),
        balloons_reconciler=True,
        balloons_reconciler_kubeconfig=_ON_MACHINE,
        **IN_STEP,
    )
    assert done.status == 0
    before = node(ONE).balloon
    assert before is not None
    kubectl("delete", "pod", "-n", NAMESPACE, before.name)
    assert eventually(lambda: is_held(ONE, one) and uid_of(ONE) != before.uid), node(ONE)
    assert is_held(TWO, two)


def uid_of(name: str) -> str:
    found = node(name).balloon
    return found.uid if found else ""


def test_a_node_that_registers_anew_takes_no_pod_before_its_balloon_is_at_size(
    sized: Callable[..., Run], slices: list[str]
) -> None:
    one, two = halves()
    everything = {"balloons_reconciler": True, "balloons_reconciler_kubeconfig": _ON_MACHINE, **IN_STEP}
    assert sized(nodes=targets(one, two), balloons_startup_taint=True, **everything).status == 0
    unit = f"ballast-{LAB['name']}-{ONE}-kubelet"
    machine().check_output("systemctl stop %s", "ballast-balloons")
    kubectl("delete", "node", ONE)
    machine().check_output("systemctl restart %s", unit)
    assert eventually(lambda: ONE in fleet().nodes and node(ONE).ready)
    assert TAINT in [row["key"] for row in api().get(f"/api/v1/nodes/{ONE}")["spec"]["taints"]]
    assert sized(nodes=targets(one, two), balloons_startup_taint=True, **everything).status == 0
    assert is_held(ONE, one)
    assert TAINT not in [row["key"] for row in api().get(f"/api/v1/nodes/{ONE}")["spec"].get("taints", [])]


def test_a_removal_leaves_nothing(sized: Callable[..., Run], slices: list[str]) -> None:
    gone = {"balloons_reconciler": True, "balloons_startup_taint": True, "balloons_state": "absent", **IN_STEP}
    assert sized(**gone).status == 0
    assert made() == set()
    found = fleet()
    assert all(found.nodes[name].target is None for name in (ONE, TWO))
    assert eventually(lambda: fleet().nodes[ONE].balloon is None)
    left = machine().run(
        "find /etc /usr/local /run /var/lib /var/log -xdev -name '*balloons*' -not -path '*/containerd/*'"
        # The kubelet names the logs of pods and containers by their namespace, and keeps them until it removes them.
        " -not -path '*/log/pods/*' -not -path '*/log/containers/*'"
    )
    assert left.stdout == ""
    done = sized(**gone)
    assert done.status == 0
    assert done.changed == 0
