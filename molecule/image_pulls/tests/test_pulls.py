# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two kubelets of a virtual machine are put behind the pull proxy, and taken back, by the command that an operator types.

The tests are one story and run in this order. Images are pulled from a registry on this host: it answers at loopback of each
instance, by way of a relay there and a socket that ssh carries over.

    containerd -> 127.0.0.1:5000 in the instance -> socket on the machine -> ssh -> front -> registry
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import testinfra
import yaml

from tests.integration.lab import Run
from tests.integration.processes import running
from tests.integration.registry import TAG, image, registry
from tests.integration.registry_front import PORT, Front, front

SCENARIO = Path(__file__).resolve().parents[1]
ROOT = SCENARIO.parents[1]
INVENTORY = SCENARIO / "inventory/lab.yml"
LAB_DIR = Path(yaml.safe_load(INVENTORY.read_text(encoding="utf-8"))["lab_dir"])
LAB = json.loads((LAB_DIR / "lab.json").read_text(encoding="utf-8"))
MACHINE = LAB["hosts"][0]
NODES = [one for one in LAB["nodes"] if one["host"] == MACHINE["name"]]
NAMES = [one["name"] for one in NODES]
HOSTS = ",".join(NAMES)
UNIT = "ballast-pull-proxy"
COMMAND, CONFIG = "/usr/local/bin/ballast-pull-proxy", "/etc/ballast/pull-proxy.json"
ANNOTATION = "image-pulls.ballast.dev/priority"
LIMIT = 2
# Of each test, and of each run of the tests, its own: one that was pulled before is not pulled again.
RUN = f"{int(time.time()):x}"
COUNT = 5
SETS = ("limited", "raised", "killed", "after")
_HERE = "../../proc/self/ns/net"  # this host's own network namespace, as a name below /run/netns
_RELAY = "/run/ballast-test-registry.sock"
_RUN_SECONDS = 600
_POD_SECONDS = 180


def playbook(*arguments: str, hosts: str = HOSTS, **variables: object) -> Run:
    """The playbook image_pull_proxy, as an operator types it."""
    given = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build/collections"),
        "ANSIBLE_FORCE_COLOR": "0",
    }
    program = str(Path(sys.executable).parent / "ansible-playbook")
    asked = json.dumps({"image_pull_proxy_hosts": hosts, **variables})
    argv = [program, "ballast.kube.image_pull_proxy", "-i", str(INVENTORY), "-e", asked, *arguments]
    done = subprocess.run(argv, cwd=ROOT, env=given, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False)
    sys.stdout.write(done.stdout + done.stderr)
    return Run(done.returncode, done.stdout + done.stderr)


def limited(limit: int = LIMIT, *arguments: str, **variables: object) -> Run:
    wanted = {"image_pull_proxy_max_in_flight": limit, "image_pull_proxy_confirm": True, **variables}
    return playbook(*arguments, **wanted)


def ssh() -> list[str]:
    """The words of a command that reaches the machine."""
    known = LAB_DIR / "vms" / "known_hosts"
    options = [f"UserKnownHostsFile={known}", "StrictHostKeyChecking=yes", "BatchMode=yes"]
    words = [word for option in options for word in ("-o", option)]
    return ["ssh", "-i", MACHINE["ssh_key"], *words, f"{MACHINE['user']}@{MACHINE['address']}"]


def machine() -> testinfra.host.Host:
    known = LAB_DIR / "vms" / "known_hosts"
    return testinfra.get_host(
        f"ssh://{MACHINE['user']}@{MACHINE['address']}",
        ssh_identity_file=MACHINE["ssh_key"],
        ssh_extra_args=f"-o UserKnownHostsFile={known} -o StrictHostKeyChecking=yes",
    )


def kubectl(*words: str, given: object = None) -> str:
    argv = [f"{LAB_DIR}/bin/kubectl", f"--kubeconfig={LAB_DIR}/admin.kubeconfig", *words]
    text = None if given is None else json.dumps(given)
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def eventually(holds: Callable[[], bool], seconds: float = _POD_SECONDS) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.3)
    return True


def status() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(machine().check_output(f"{COMMAND} status --config {CONFIG} --json"))
    return found


def counts() -> tuple[int, int]:
    found = status()
    return len(found["in_flight"]), len(found["queued"])


def pid() -> str:
    return str(machine().check_output("systemctl show -p MainPID --value %s", UNIT))


def kubelet_pids() -> list[str]:
    units = [f"ballast-{LAB['name']}-{name}-kubelet" for name in NAMES]
    return [machine().check_output("systemctl show -p MainPID --value %s", unit) for unit in units]


def footprint() -> str:
    """What of the proxy, and of settings of image pulls, lies on the machine."""
    places = "/etc /run /usr/local /var/lib/ballast /var/log"
    names = "-name '*pull*' -o -path '/etc/ballast*' -o -path '*/kubelet.conf.d/*' -o -path '*/shared/*'"
    found = machine().run(
        f"find {places} -xdev \\( {names} \\) -not -path '*/containerd/*' -not -path '*/kubelet/pods/*'"
    )
    units = machine().check_output("systemctl list-units --all --no-legend --plain %s", "*pull*")
    return str(found.stdout) + units


def endpoints() -> set[str]:
    """What the kubelets have in effect."""
    found = set()
    for name in NAMES:
        config = json.loads(kubectl("get", "--raw", f"/api/v1/nodes/{name}/proxy/configz"))["kubeletconfig"]
        found.add(config.get("imageServiceEndpoint", ""))
    return found


def images(of: str) -> list[str]:
    return [f"{of}-{RUN}-{number}" for number in range(COUNT)]


def create(names: list[str]) -> None:
    """A pod of each image, in turns on the nodes."""
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"of": "pulls"}},
            "spec": {
                "nodeName": NAMES[number % len(NAMES)],
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 0,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "one", "image": f"127.0.0.1:{PORT}/{name}:{TAG}"}],
            },
        }
        for number, name in enumerate(names)
    ]
    kubectl("create", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": pods})


def running_pods() -> set[str]:
    told = json.loads(kubectl("get", "pods", "-l", "of=pulls", "-o", "json"))
    return {one["metadata"]["name"] for one in told["items"] if one["status"]["phase"] == "Running"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    path = tmp_path_factory.mktemp("registry")
    with ExitStack() as undo:
        store = undo.enter_context(registry(path / "registry"))
        for name in SETS:
            for one in images(name):
                store.push(image(one, 500_000))
        made = undo.enter_context(front(store.port, {_HERE: MACHINE["name"]}))
        tunnel = [*ssh(), "-N", "-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindUnlink=yes"]
        machine().run("rm -f %s", _RELAY)
        undo.enter_context(running([*tunnel, "-R", f"{_RELAY}:127.0.0.1:{PORT}"], path / "ssh.log"))
        assert eventually(lambda: machine().file(_RELAY).exists, 30), (path / "ssh.log").read_text()
        for node in NODES:
            unit = f"ballast-test-registry-{node['name']}"
            listen = f"socat TCP-LISTEN:{PORT},bind=127.0.0.1,reuseaddr,fork UNIX-CONNECT:{_RELAY}"
            machine().check_output(f"systemd-run --collect --unit={unit} nsenter --net={node['netns']} -- {listen}")
            undo.callback(machine().run, "systemctl stop %s", unit)
        undo.callback(machine().run, "rm -f %s", _RELAY)
        yield made


@pytest.fixture
def pulls(served: Front) -> Iterator[Front]:
    """Without a pod of the test before."""
    yield served
    for manner in served.manners.values():
        if manner.open is not None:
            manner.open.set()
    served.manners.clear()
    kubectl("delete", "pods", "-l", "of=pulls", "--grace-period=0", "--force", "--wait=true")
    served.requests.clear()


@pytest.fixture(scope="module")
def before() -> str:
    return footprint()


def test_a_limit_has_to_be_given(before: str) -> None:
    done = playbook(image_pull_proxy_confirm=True)
    assert done.status != 0
    assert "image_pull_proxy_max_in_flight is not set" in done.output
    assert footprint() == before


def test_who_does_not_confirm_changes_nothing(before: str) -> None:
    kubelets = kubelet_pids()
    done = limited(image_pull_proxy_confirm=False)
    assert done.status == 0
    assert f"machines: no pull proxy -> limit {LIMIT}: 1 node ({MACHINE['name']})" in done.output
    assert "-e image_pull_proxy_confirm=true" in done.output
    assert footprint() == before
    assert kubelet_pids() == kubelets


def test_both_kubelets_are_put_behind_one_proxy() -> None:
    done = limited()
    assert done.status == 0
    assert machine().service(UNIT).is_running
    assert machine().service(UNIT).is_enabled
    assert endpoints() == {f"unix:///run/ballast-pull-proxy/{name}.sock" for name in NAMES}
    assert machine().file(CONFIG).mode == 0o600
    for path, mode in (("", 0o700), *((f"/{name}.sock", 0o600) for name in NAMES)):
        assert machine().file(f"/run/ballast-pull-proxy{path}").mode == mode


def test_a_second_run_changes_nothing() -> None:
    first = (pid(), kubelet_pids())
    done = limited()
    assert done.status == 0
    assert done.changed == 0
    assert (pid(), kubelet_pids()) == first


def test_the_limit_is_that_of_both_kubelets_and_pods_start(pulls: Front) -> None:
    wanted = images("limited")
    opened = pulls.hold(wanted)
    create(wanted)
    assert eventually(lambda: counts() == (LIMIT, COUNT - LIMIT)), status()
    shown = machine().check_output(f"{COMMAND} status --config {CONFIG}")
    assert f"{LIMIT} in flight (limit {LIMIT}), {COUNT - LIMIT} queued" in shown
    opened.set()
    assert eventually(lambda: running_pods() == set(wanted)), kubectl("get", "pods", "-o", "wide")
    assert pulls.in_flight_most() == LIMIT


def test_a_new_limit_is_taken_without_dropping_a_pull(pulls: Front) -> None:
    wanted = images("raised")
    first = (pid(), kubelet_pids())
    opened = pulls.hold(wanted)
    create(wanted)
    assert eventually(lambda: counts() == (LIMIT, COUNT - LIMIT)), status()
    assert limited(LIMIT + 1).status == 0
    assert eventually(lambda: counts() == (LIMIT + 1, COUNT - LIMIT - 1)), status()
    assert (pid(), kubelet_pids()) == first
    opened.set()
    assert eventually(lambda: running_pods() == set(wanted)), kubectl("get", "pods", "-o", "wide")
    assert all(len(pulls.asked(name, kind="manifests")) == 1 for name in wanted), "each was pulled once"


def test_a_proxy_that_is_killed_comes_back_and_loses_no_pod(pulls: Front) -> None:
    wanted = images("killed")
    first = pid()
    opened = pulls.hold(wanted)
    create(wanted)
    assert eventually(lambda: counts()[0] == LIMIT + 1), status()
    machine().check_output("kill -KILL %s", first)
    assert eventually(lambda: pid() not in (first, "0"), 30)
    opened.set()
    assert eventually(lambda: running_pods() == set(wanted)), kubectl("get", "pods", "-o", "wide")
    assert status()["max_in_flight"] == LIMIT + 1


def test_the_api_server_writes_the_priority_of_a_pod() -> None:
    policy = {
        "image_pull_proxy_priority_policy": True,
        "image_pull_proxy_admin_kubeconfig": f"{LAB_DIR}/admin.kubeconfig",
    }
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "first"}, "value": 777}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "weighty", "annotations": {"kept": "yes", ANNOTATION: "999"}},
        "spec": {"priorityClassName": "first", "containers": [{"name": "one", "image": "none.example/none"}]},
    }
    kubectl("create", "-f", "-", given=kind)
    try:
        assert limited(LIMIT + 1, image_pull_proxy_order="priority", **policy).status == 0
        assert eventually(lambda: annotations(pod) == {"kept": "yes", ANNOTATION: "777"}, 30), annotations(pod)
        assert status()["order"] == "priority"
    finally:
        kubectl("delete", "priorityclass", "first")
    done = playbook(image_pull_proxy_state="absent", image_pull_proxy_confirm=True, hosts=HOSTS, **policy)
    assert done.status == 0
    assert kubectl("get", "mutatingadmissionpolicies,mutatingadmissionpolicybindings", "-o", "name") == ""


def annotations(pod: object) -> dict[str, str]:
    """What the API server would make of them."""
    made = json.loads(kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", given=pod))
    found: dict[str, str] = made["metadata"]["annotations"]
    return found


def test_a_removal_leaves_nothing(before: str) -> None:
    assert footprint() == before
    assert endpoints() == {""}
    done = playbook(image_pull_proxy_state="absent", image_pull_proxy_confirm=True)
    assert done.status == 0
    assert done.changed == 0


def test_a_proxy_is_not_taken_from_a_kubelet_that_is_not_named(before: str) -> None:
    done = playbook(image_pull_proxy_state="absent", image_pull_proxy_confirm=True, hosts=NAMES[0])
    assert done.status != 0
    assert f"image_pull_proxy_hosts omits {NAMES[1]}" in done.output


def test_pods_start_without_it(pulls: Front) -> None:
    wanted = images("after")
    create(wanted)
    assert eventually(lambda: running_pods() == set(wanted)), kubectl("get", "pods", "-o", "wide")
