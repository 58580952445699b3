# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a real node answers to the production readiness questionnaire about its kube-proxy, and its host about node instances.
The tests run in order, on one lab; the last leaves it broken."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.cgroup_paths import cgroup_directories
from ansible_collections.ballast.kube.plugins.module_utils._core.host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.kinds import fields
from ansible_collections.ballast.kube.plugins.module_utils._core.readiness import MEASURED, NO, YES
from ansible_collections.ballast.kube.plugins.module_utils._core.service import ServiceKind
from ansible_collections.ballast.kube.plugins.module_utils._instance import readiness as instance
from ansible_collections.ballast.kube.plugins.module_utils._instance.model import cgroup_of
from ansible_collections.ballast.kube.plugins.module_utils._proxy import readiness as proxy
from tests.integration.lab import ROOT, Lab, lab_named

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

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a lab")]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with lab_named(NAME) as made:
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


def test_what_is_caused_on_a_real_node_is_found(lab: Lab, place: Path) -> None:
    host, home = LocalHost(), f"{lab.directory}/nodes/{NODE}"
    inside = ["nsenter", f"--net=/run/netns/ballast-{NAME}-{NODE}", "--"]
    nft = "delete table ip kube-proxy; add table ip ballast-bridge; add chain ip ballast-bridge held"
    host.run([*inside, "nft", nft], timeout=60)
    host.run([*inside, "iptables", "-t", "nat", "-N", "KUBE-SERVICES"], timeout=60)
    config = f"{home}/etc/kube-proxy.json"
    other = {**json.loads(host.read(config) or b""), "mode": "iptables"}
    host.write(config, json.dumps(other).encode())  # a new file: kube-proxy ends where its own is written into
    (pod_cidr,) = [node["pod_cidr"] for node in lab.record["nodes"]]
    host.run(["ip", "route", "del", pod_cidr], timeout=60)
    kubelet, kind = f"{home}/sv/ballast-{NAME}-{NODE}-kubelet", ServiceKind()
    running = kind.read(host, kubelet)
    kind.write(host, kubelet, {**fields(running), "running": False}, running)
    (pids,) = [one for one in cgroup_directories(host, cgroup_of(NAME, NODE)) if host.stat(f"{one}/pids.max")]
    host.poke(f"{pids}/pids.max", str(int(host.read(f"{pids}/pids.current") or 0) + 1))
    found = asked(place)
    assert found[proxy.NAME]["present"] == [proxy.DIFFERS, proxy.CONFIG_UNREAD, proxy.CHANGE_OPEN, proxy.LEFT_OVER]
    assert found[instance.NAME]["present"] == [instance.KUBELET_DOWN, instance.PART_MISSING, instance.NEAR_LIMIT]
    assert verdicts(found[instance.NAME])["scale"] == NO
    for one in found.values():
        assert (verdicts(one)["healthy"], verdicts(one)["failures"]) == (NO, NO)
        assert one["answers"]["healthy"]["remedy"]
        assert one["answers"]["failures"]["remedy"]
