# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A generic control plane on a machine with systemd and cgroup v2, by the role.

The tests are one story and run in this order. kubectl runs on the machine, where the plane listens on loopback.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import testinfra
import yaml

from tests.integration.lab import Run

SCENARIO = Path(__file__).resolve().parents[1]
ROOT = SCENARIO.parents[1]
INVENTORY = SCENARIO / "inventory/lab.yml"
LAB_DIR = Path(yaml.safe_load(INVENTORY.read_text(encoding="utf-8"))["lab_dir"])
LAB = json.loads((LAB_DIR / "lab.json").read_text(encoding="utf-8"))
MACHINE = next(host for host in LAB["hosts"] if host["name"] == "vm1")  # as the play has it
HOME = "/var/lib/ballast/planes"
KUBECTL = f"/opt/ballast/bin/kubectl --kubeconfig={HOME}/generic/admin.kubeconfig --cache-dir={HOME}/generic-cache"
COMPONENTS = ("etcd", "generic-apiserver", "kube-controller-manager")
GROUP = "molecule.ballast.dev"
_RUN_SECONDS = 900
_SECONDS = 300


def play(state: str, *arguments: str) -> Run:
    given = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build/collections"),
        "ANSIBLE_FORCE_COLOR": "0",
    }
    variables = {"planes_home": HOME, "planes_state": state, "planes_version": str(LAB["kubernetes_version"])}
    program = str(Path(sys.executable).parent / "ansible-playbook")
    argv = [program, str(SCENARIO / "planes.yml"), "-i", str(INVENTORY), "-e", json.dumps(variables), *arguments]
    done = subprocess.run(argv, cwd=ROOT, env=given, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False)
    sys.stdout.write(done.stdout + done.stderr)
    return Run(done.returncode, done.stdout + done.stderr)


def machine() -> testinfra.host.Host:
    known = LAB_DIR / "vms" / "known_hosts"
    return testinfra.get_host(
        f"ssh://{MACHINE['user']}@{MACHINE['address']}",
        ssh_identity_file=MACHINE["ssh_key"],
        ssh_extra_args=f"-o UserKnownHostsFile={known} -o StrictHostKeyChecking=yes",
    )


def kubectl(*words: str, given: object = None) -> str:
    text = f"printf %s {_quoted(json.dumps(given))} | " if given is not None else ""
    command = f"{text}{KUBECTL} {' '.join(map(_quoted, words))}"
    return str(machine().check_output(command))


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def eventually(holds: Callable[[], bool], seconds: float = _SECONDS) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(1)
    return True


def units() -> dict[str, str]:
    """Of each unit of the plane, whether it is active."""
    names = [f"ballast-generic-{component}" for component in COMPONENTS]
    found = machine().run(f"systemctl is-active {' '.join(names)}").stdout.split()
    return dict(zip(names, found))


def killed() -> str:
    """What systemd told of units of the plane that did not end in time."""
    journal = machine().check_output("journalctl --no-pager -b -u 'ballast-generic-*'")
    return "\n".join(line for line in journal.splitlines() if "timed out. Killing" in line)


def footprint() -> str:
    """What of the plane lies on the machine, apart from the lab's own."""
    found = machine().run(
        f"find {HOME} /etc/systemd/system /run/systemd/system -xdev "
        "\\( -name 'ballast-generic*' -o -path '*/planes*' \\) 2>/dev/null"
    )
    processes = machine().run(f"pgrep -af {HOME}").stdout
    cgroups = machine().run("find /sys/fs/cgroup -name 'ballast-generic*'").stdout
    return str(found.stdout) + "".join(line for line in processes.splitlines() if "pgrep" not in line) + str(cgroups)


@pytest.fixture(scope="module", autouse=True)
def gone_afterwards() -> Iterator[None]:
    yield
    if footprint():  # a test of the story has failed
        play("absent")


def test_it_comes_up_and_a_second_run_changes_nothing() -> None:
    assert footprint() == ""
    first = play("present")
    assert first.status == 0
    assert first.changed > 0
    again = play("present")
    assert (again.status, again.changed) == (0, 0)
    assert set(units().values()) == {"active"}


def test_it_serves_what_its_profile_promises_and_no_pods() -> None:
    assert kubectl("get", "--raw", "/readyz") == "ok"
    served = set(kubectl("api-resources", "-o", "name").split())
    assert {"configmaps", "secrets", "customresourcedefinitions.apiextensions.k8s.io"} <= served
    assert {"pods", "nodes", "services"} & served == set()


def test_processes_are_in_the_slice_of_their_plane() -> None:
    for component in COMPONENTS:
        shown = machine().check_output("systemctl show -p Slice --value %s", f"ballast-generic-{component}")
        assert shown.startswith("ballast-generic")


def test_an_object_goes_with_the_one_that_owns_it() -> None:
    kubectl("apply", "-f", "-", given=crd())
    kubectl("wait", "--for=condition=Established", f"crd/widgets.{GROUP}", f"--timeout={_SECONDS}s")
    own()
    # The garbage collector learns of a new CRD within half a minute.
    kubectl("wait", "--for=delete", "configmap/owned", f"--timeout={_SECONDS}s")


def test_a_clock_that_jumps_stops_nothing() -> None:
    """Forwards and back again: the machine's own clock, with everything that runs there."""
    for hours in (30, -30):
        now = int(machine().check_output("date +%s"))
        machine().check_output(f"date -s @{now + hours * 3600}")
        assert eventually(is_ready)
        kubectl("create", "configmap", f"jumped{hours}")
        if hours > 0:
            # The controllers are at work: they hold a Lease, which the clock has ended.
            kubectl("create", "namespace", "jumped")
            kubectl("delete", "namespace", "jumped", f"--timeout={_SECONDS}s")
    assert set(units().values()) == {"active"}


def test_it_stops_and_starts_with_what_it_had() -> None:
    kubectl("create", "configmap", "kept", "--from-literal=of=generic")
    assert play("stopped").status == 0
    assert "active" not in units().values()
    assert killed() == "", "each ended by itself, before what it needs"
    assert machine().run(f"pgrep -f {HOME}/[g]").stdout == ""
    assert play("present").status == 0
    assert kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.of}") == "generic"


def test_nothing_is_left_of_it() -> None:
    machine().check_output(f"rm -rf {HOME}/generic-cache")  # kubectl's own
    assert play("absent").status == 0
    assert not machine().file(HOME).exists, "the directory of all, which the last one leaves empty"
    assert footprint() == ""


def is_ready() -> bool:
    return bool(machine().run(f"{KUBECTL} get --raw /readyz").succeeded)


def own() -> None:
    """An object that another one owns, which is gone."""
    owner = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "owner"}, "spec": {"size": 1}}
    assert eventually(lambda: created(owner))
    uid = kubectl("get", "widget", "owner", "-o", "jsonpath={.metadata.uid}")
    reference = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "name": "owner", "uid": uid}
    owned = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "owned", "ownerReferences": [reference]},
        "data": {"of": "generic"},
    }
    kubectl("apply", "-f", "-", given=owned)
    kubectl("delete", "widget", "owner")


def created(body: dict[str, Any]) -> bool:
    """Whether kubectl knows the kind yet, and has made the object."""
    command = f"printf %s {_quoted(json.dumps(body))} | {KUBECTL} apply -f -"
    return bool(machine().run(command).succeeded)


def crd() -> dict[str, Any]:
    spec = {"type": "object", "properties": {"size": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }
