# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook lab_status: what of a lab makes it fail, and how it reaches the lab's hosts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.fleet.shadow import ROOT, Fleet

READ = ("lab_info", "control_plane_info", "kubelet_instance_info", "lab_check_info")
HOST = {
    "name": "localhost",
    "connection": "local",
    "address": "10.97.0.1",
    "state_dir": "/l",
    "gateway": "10.97.0.1/24",
}

MACHINE = {
    **HOST,
    "name": "vm1",
    "connection": "ssh",
    "user": "root",
    "ssh_key": "/l/key",
    "known_hosts": "/l/known",
}


@pytest.mark.parametrize(
    ("bootstrap", "plane", "ready", "said"),
    [
        ("lab", "running", [True, True], ""),
        ("lab", "running", [True, False], "not Ready in the lab in /l: n2"),
        ("lab", "stopped", [False, False], "the control plane of the lab in /l is stopped"),
        ("kubeadm", "", [False, False], "not Ready in the lab in /l: n1, n2"),  # its machines are off
    ],
)
def test_a_lab_with_a_part_that_does_not_run_is_a_failure_with_the_command_that_starts_it(
    tmp_path: Path, bootstrap: str, plane: str, ready: list[bool], said: str
) -> None:
    fleet = Fleet(tmp_path, replaced=READ)
    nodes = [{"name": f"n{number}", "ready": is_ready} for number, is_ready in enumerate(ready, start=1)]
    record: dict[str, Any] = {
        "lab": {"name": "lab", "bootstrap": bootstrap, "hosts": [HOST], "nodes": nodes},
        "parts": {"hosts": {"localhost": {"instances": []}}, "api_server": "https://10.97.0.1:6443"},
    }
    answers: dict[str, dict[str, Any]] = {
        "localhost": {
            "lab_info": record,
            "control_plane_info": {"state": plane},
            "lab_check_info": {"summary": {"nodes": nodes}, "ballast_summary": "the table"},
        },
        "this-host": {"kubelet_instance_info": {"instances": []}},
    }
    done = fleet.run("lab_status", hosts=answers, variables={"lab_dir": "/l", "lab_user_id": 0})
    assert "the table" in done.output
    assert (done.status != 0) == bool(said), done.output
    assert said in done.output
    assert ("ballast.kube.lab_up -e lab_dir=/l" in done.output) == bool(said)


def test_a_lab_of_virtual_machines_that_are_off_is_told_as_any_other(tmp_path: Path) -> None:
    """None of them is reached, and the table is of what is known without them."""
    fleet = Fleet(tmp_path, replaced=READ)
    nodes = [{"name": "n1", "ready": False}]
    record = {
        "lab": {"name": "lab", "bootstrap": "lab", "hosts": [MACHINE], "nodes": nodes},
        "parts": {"hosts": {"vm1": {"instances": []}}, "api_server": "https://10.97.0.1:6443"},
    }
    answers: dict[str, dict[str, Any]] = {
        "localhost": {
            "lab_info": record,
            "control_plane_info": {"state": "stopped"},
            "lab_check_info": {"summary": {"nodes": nodes}, "ballast_summary": "the table"},
        },
        "vm1": {"kubelet_instance_info": {"lost": "no route to host"}},
    }
    done = fleet.run("lab_status", hosts=answers, variables={"lab_dir": "/l", "lab_user_id": 0})
    assert done.status != 0
    assert "the table" in done.output, done.output
    assert "the control plane of the lab in /l is stopped" in done.output
    assert [options["instances"] for _host, _name, options in fleet.calls("lab_check_info")] == [[]]


def test_an_inventory_that_sets_ports_and_shells_for_all_hosts_does_not_set_those_of_a_lab(tmp_path: Path) -> None:
    variables = ("ansible_port", "ansible_shell_type", "ansible_ssh_extra_args")
    shown = [f"{{{{ hostvars[host].{name} | default('none') }}}}" for name in variables]
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars_files": [str(ROOT / "playbooks/vars/lab.yml")],
        "tasks": [
            {"set_fact": {"lab_record": {"lab": {"hosts": [HOST, MACHINE]}}}},
            {"include_tasks": str(ROOT / "playbooks/tasks/hosts.yml")},
            *(
                {"debug": {"msg": f"{host}: {' '.join(shown)}."}, "vars": {"host": host}}
                for host in ("this-host", "vm1")
            ),
        ],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    theirs = dict(zip(variables, (2222, "powershell", "-J bastion")))
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"vars": theirs}}))
    argv = [
        str(Path(sys.executable).with_name("ansible-playbook")),
        "-i",
        str(tmp_path / "hosts.json"),
        str(tmp_path / "play.yml"),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert "vm1: 22 sh ." in done.stdout, done.stdout + done.stderr
    assert "this-host: 2222 sh ." in done.stdout
