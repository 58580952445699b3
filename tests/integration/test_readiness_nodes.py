# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a real node answers to the production readiness questionnaire about its kube-proxy, and its host about node instances.
The tests run in order, on one lab; the last leaves it broken."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.kinds import fields
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import MEASURED, NO, YES
from ansible_collections.ballast.kube.plugins.module_utils._core.host.cgroup_paths import cgroup_directories
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import ServiceKind
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import PeerError
from ansible_collections.ballast.kube.plugins.module_utils._instance import readiness_answers as instance
from ansible_collections.ballast.kube.plugins.module_utils._instance.model import cgroup_of
from ansible_collections.ballast.kube.plugins.module_utils._instance.record import read_options
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import readiness_answers as proxy
from tests.integration import journal
from tests.integration.killed_run import killed
from tests.integration.lab import ROOT, Lab, lab_named
from tests.integration.plane_client import eventually
from tests.integration.told import assert_told
from tests.unit.readings import completed

NAME, NODE = "rdn", "n1"
Readings = Mapping[str, dict[str, Any]]  # by feature
PLAY = """
- hosts: ballast_nodes, ballast_hosts
  gather_facts: false
  tasks:
    - ballast.kube.kube_proxy_info:
        readiness: true
        service: "{{ kube_proxy_service }}"
        config_path: "{{ kube_proxy_config_path }}"
        state_dir: "{{ kube_proxy_state_dir }}"
      register: found
      when: "'ballast_nodes' in group_names"
    - ballast.kube.kubelet_instance_info:
        readiness: true
        state_dir: "{{ node_instances_state_dir }}"
        lab: "{{ node_instances_lab }}"
        instances: "{{ node_instances_list }}"
        gateway: "{{ node_instances_gateway }}"
        api_server: "{{ node_instances_api_server }}"
      register: found_instances
      when: "'ballast_hosts' in group_names"
    - ansible.builtin.copy:
        content: "{{ found.readiness | default(found_instances.readiness) | to_json }}"
        dest: "{{ place }}/{{ inventory_hostname }}.json"
        mode: "0600"
      delegate_to: localhost
      become: false
"""

# What kube-proxy writes takes nine seconds, which its histogram counts among those of more than ten: the bounds are 8.2 and 16.4.
# It ends with a kube-proxy that is killed.
SLOW_NFT = """#!/bin/sh
if [ "$1" = -f ] && [ "$(cat /proc/$PPID/comm)" = kube-proxy ]; then
  for _tenth in $(seq 90); do kill -0 $PPID || exit 1; sleep 0.1; done
fi
exec {place}/nft.real "$@"
"""

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a lab")]


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    """Of the lab alone, so that it can be full. Its path is short, as those of the lab's sockets have to be."""
    found = tempfile.mkdtemp(prefix="ballast-it-")
    mounted = ("mount", "-t", "tmpfs", "-o", "size=16g,mode=0755", "ballast-test", found)
    with journal.directory(found), journal.mount(found, *mounted):
        yield Path(found)


@pytest.fixture(scope="module")
def lab(disk: Path) -> Iterator[Lab]:
    with lab_named(NAME, within=str(disk)) as made:
        up = made.up(lab_nodes=1)
        assert up.status == 0, up.output
        yield made


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, lab: Lab) -> Path:
    found = tmp_path_factory.mktemp("readiness")
    (found / "lab.yml").write_text(f"plugin: ballast.kube.lab\nlab_dir: {lab.directory}\n", encoding="utf-8")
    (found / "play.yml").write_text(PLAY, encoding="utf-8")
    return found


def asked(place: Path) -> Readings:
    argv = [str(ROOT / ".venv/bin/ansible-playbook"), "-i", "lab.yml", "play.yml", "-e", f"place={place}"]
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build/collections"),
    }
    done = subprocess.run(argv, cwd=place, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [json.loads(path.read_text(encoding="utf-8")) for path in place.glob("*.json")]
    return {one["feature"]: one for one in found}


def verdicts(reading: Mapping[str, Any]) -> dict[str, str]:
    return {name: answer["verdict"] for name, answer in reading["answers"].items()}


def test_a_real_node_answers_yes_to_every_question(lab: Lab, place: Path) -> None:
    found = asked(place)
    assert {name: (verdicts(one), one["present"]) for name, one in found.items()} == {
        proxy.NAME: (dict.fromkeys(MEASURED, YES), []),
        instance.NAME: (dict.fromkeys(MEASURED, YES), []),
    }
    (sync, *_others) = found[proxy.NAME]["answers"]["healthy"]["figures"]
    assert sync["value"] > 0
    assert sync["buckets"][-1]["le"] is None
    version = found[proxy.NAME]["versions"]["kube-proxy"]
    assert found[instance.NAME]["versions"]["kubelet"].startswith(version)
    assert version == f"v{lab.record['kubernetes_version']}"


def test_a_node_without_a_network_for_pods_is_not_ready_and_its_runtime_is_not_blamed(lab: Lab, place: Path) -> None:
    network = Path(lab.directory, f"nodes/{NODE}/etc/cni/10-ballast.conflist")
    network.rename(network.with_suffix(".away"))
    try:
        ready = '--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}'
        eventually(lambda: lab.kubectl("get", "node", NODE, ready) == "False", what="NotReady", seconds=120)
        found = asked(place)[instance.NAME]
    finally:
        network.with_suffix(".away").rename(network)
    assert found["present"] == [instance.NOT_READY, instance.PART_MISSING]
    assert_told(found, instance.NOT_READY, instance.PART_MISSING)
    assert "NetworkPluginNotReady" in found["answers"]["healthy"]["lines"][0]
    assert "ballast.kube.instance_network" in completed(found)["answers"]["healthy"]["remedy"]


def test_a_kube_proxy_that_takes_long_to_write_its_rules_is_told(lab: Lab, place: Path) -> None:
    with slow_nft(lab, place):
        _start_kube_proxy_anew(lab)
        found = eventually(lambda: _slow(asked(place)[proxy.NAME]), what="its first synchronisation has ended")
    _start_kube_proxy_anew(lab)
    url = f"http://{lab.record['nodes'][0]['address']}:10256/healthz"
    eventually(lambda: _answers(url), what="kube-proxy is well again")
    assert_told(found, proxy.SYNC_SLOW, no=())


def _slow(found: dict[str, Any]) -> dict[str, Any] | None:
    return found if proxy.SYNC_SLOW in found["present"] else None


def _start_kube_proxy_anew(lab: Lab) -> None:
    pid = _kube_proxy(lab)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: _kube_proxy(lab) not in (0, pid), what="another kube-proxy runs")


def _kube_proxy(lab: Lab) -> int:
    """The process that runs now; 0 for none."""
    (pid,) = [pid for path, pid in lab.services().items() if path.endswith("-kube-proxy")]
    return pid


def _answers(url: str) -> bool:
    try:
        return LocalHost().request(url, timeout=5).status == 200
    except PeerError:
        return False


@contextmanager
def slow_nft(lab: Lab, place: Path) -> Iterator[None]:
    """In the node's mount namespace, with which it goes too."""
    program, broken = os.path.realpath("/usr/sbin/nft"), place / "nft"
    shutil.copy(program, place / "nft.real")
    broken.write_text(SLOW_NFT.format(place=place), encoding="utf-8")
    broken.chmod(0o755)
    inside = ["nsenter", f"--mount={lab.record['nodes'][0]['mountns']}", "--"]
    host = LocalHost()
    host.run([*inside, "mount", "--bind", str(broken), program], timeout=60)
    try:
        yield
    finally:
        host.run([*inside, "umount", "--lazy", program], timeout=60)  # one of it may run


def test_a_disk_with_little_room_is_told(lab: Lab, disk: Path, place: Path) -> None:
    _resize(disk, shutil.disk_usage(disk).used + (512 << 20))
    try:
        found = asked(place)[instance.NAME]
    finally:
        _resize(disk, 16 << 30)
    assert found["present"] == [instance.DISK_FULL]
    assert_told(found, instance.DISK_FULL, no=("scale",))
    assert verdicts(found) == {**dict.fromkeys(MEASURED, YES), "scale": NO, "failures": NO}
    assert "MiB of disk are free" in found["answers"]["scale"]["text"]
    assert "crictl rmi --prune" in completed(found)["answers"]["scale"]["remedy"]


def _resize(disk: Path, size: int) -> None:
    LocalHost().run(["mount", "-o", f"remount,size={size}", str(disk)], timeout=60)


def _asked_near_a_limit(host: LocalHost, pids: str, place: Path) -> Readings | None:
    """Its processes come and go, so the limit is set by those that are there just before each question."""
    host.write_kernel_file(f"{pids}/pids.max", str(int(host.read(f"{pids}/pids.current") or 0) + 1))
    found = asked(place)
    return found if instance.NEAR_LIMIT in found[instance.NAME]["present"] else None


def test_what_is_caused_on_a_real_node_is_found(lab: Lab, place: Path) -> None:
    host, home = LocalHost(), f"{lab.directory}/nodes/{NODE}"
    inside = ["nsenter", f"--net=/run/netns/ballast-{NAME}-{NODE}", "--"]
    nft = "delete table ip kube-proxy; add table ip ballast-bridge; add chain ip ballast-bridge ballast-takeover"
    host.run([*inside, "nft", nft], timeout=60)
    host.run([*inside, "iptables", "-t", "nat", "-N", "KUBE-SERVICES"], timeout=60)
    config = f"{home}/etc/kube-proxy.json"
    other = {**json.loads(host.read(config) or b""), "mode": "iptables"}
    host.write(config, json.dumps(other).encode())  # a new file: kube-proxy ends where its own is written into
    (pod_cidr,) = [node["pod_cidr"] for node in lab.record["nodes"]]
    host.run(["ip", "route", "del", pod_cidr], timeout=60)
    kubelet, kind = f"{home}/sv/ballast-{NAME}-{NODE}-kubelet", ServiceKind()
    running = kind.read(Context(None, host), kubelet)
    kind.write(Context(None, host), kubelet, {**fields(running), "running": False}, running)
    state_dir = os.path.dirname(home)
    killed("node_instances", {"state_dir": state_dir, **(read_options(host, state_dir) or {})})
    (pids,) = [one for one in cgroup_directories(host, cgroup_of(NAME, NODE)) if host.stat(f"{one}/pids.max")]
    found = eventually(lambda: _asked_near_a_limit(host, pids, place), what="near its limit")
    of_proxy = (proxy.DIFFERS, proxy.CONFIG_UNREAD, proxy.CHANGE_OPEN, proxy.LEFT_OVER)
    of_host = (instance.KUBELET_DOWN, instance.PART_MISSING, instance.NEAR_LIMIT, instance.RUN_OPEN)
    assert found[proxy.NAME]["present"] == [*of_proxy]
    assert_told(found[proxy.NAME], *of_proxy)
    assert found[instance.NAME]["present"] == [*of_host]
    assert_told(found[instance.NAME], *of_host, no=("healthy", "scale"))
