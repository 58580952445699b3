# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the module of a fleet run is given of the inventory, as Ansible reads it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible.vars.manager import VariableManager

from ansible_collections.ballast.kube.plugins.action.fleet_run import ActionModule

ROOT = Path(__file__).resolve().parents[3]
INVENTORY = """
all:
  hosts: {n1: {fleet_region: eu}, n2: {}, n3: {}}
  children: {west: {hosts: {n1: {}}}}
"""


@pytest.fixture(autouse=True)
def base(monkeypatch: pytest.MonkeyPatch) -> None:
    of_ansible = "ansible.plugins.action.ActionBase."
    monkeypatch.setattr(of_ansible + "run", lambda self, tmp=None, task_vars=None: {})
    monkeypatch.setattr(of_ansible + "_remove_tmp_path", lambda self, path: None)
    monkeypatch.setattr(ActionModule, "_run_module", lambda self, arguments, variables: arguments)


def given_to_the_module(
    place: Path, hosts: list[str], *, limit: str = "", local: str = "", **extra: Any
) -> dict[str, Any]:
    (place / "hosts.yml").write_text(INVENTORY, encoding="utf-8")
    (place / "host_vars").mkdir()
    (place / "host_vars/localhost.yml").write_text(local, encoding="utf-8")
    loader = DataLoader()
    inventory = InventoryManager(loader, [str(place / "hosts.yml")])
    inventory.subset(limit or None)
    inventory.restrict_to_hosts([inventory.get_host("localhost")])  # as in a play of it
    manager = VariableManager(loader, inventory)
    manager._extra_vars = {"fleet_slices": 2, "kube_proxy_mode": "nftables", **extra}
    action = ActionModule.__new__(ActionModule)
    request = {"playbook": "kube_proxy_migrate", "hosts": hosts}
    action._task = SimpleNamespace(args={"request": request}, get_variable_manager=lambda: manager)
    action._connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
    return action.run(task_vars={"groups": inventory.get_groups_dict()})


def test_hosts_that_the_limit_leaves_out_are_not_changed(tmp_path: Path) -> None:
    """A play does not reach them; the workers have no limit."""
    refused = given_to_the_module(tmp_path, ["n1", "n2", "n3"], limit="n1,localhost")
    assert (refused["failed"], refused["id"]) == (True, "fleet-limit")
    assert "n2, n3" in refused["msg"]


def test_a_limit_that_has_all_hosts_of_the_request_is_none(tmp_path: Path) -> None:
    assert "inventory" in given_to_the_module(tmp_path, ["n1"], limit="west,localhost")


def test_what_the_playbook_reads_of_localhost_reaches_the_slices(tmp_path: Path) -> None:
    """A gate of localhost alone would be lost. Other variables of it are not for a pod."""
    local = "kube_proxy_gate_command: [/bin/check]\nansible_connection: local\n"
    inventory = json.loads(given_to_the_module(tmp_path, ["n1", "n2"], local=local)["inventory"])
    assert inventory["local"] == {"kube_proxy_gate_command": ["/bin/check"], "kube_proxy_mode": "nftables"}
    assert inventory["extra"] == {"kube_proxy_mode": "nftables"}
    assert inventory["hosts"] == {"n1": {"fleet_region": "eu", "kube_proxy_mode": "nftables"}, "n2": inventory["extra"]}
    assert inventory["groups"]["west"] == ["n1"]


def test_what_expressions_name_of_localhost_reaches_the_slices_too(tmp_path: Path) -> None:
    """Where the batches are those of the site, each worker ended with an undefined variable before it had looked at a node."""
    local = """
kube_proxy_serial: "{{ site.serial }}"
site: {serial: [2, "{{ largest | int }}"]}
largest: 7
gate: /bin/check
ansible_user: me
ansible_python_interpreter: /usr/bin/python3
other: "{{ ansible_user }}"
"""
    extra = {"kube_proxy_gate_command": ["{{ gate }}", "{{ ansible_user }}"]}
    inventory = json.loads(given_to_the_module(tmp_path, ["n1"], local=local, **extra)["inventory"])
    assert set(inventory["local"]) - {"kube_proxy_mode"} == {
        *("kube_proxy_serial", "kube_proxy_gate_command", "site", "largest", "gate")
    }


def test_a_directory_below_the_home_of_the_user_is_found_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell leaves `-e fleet_dir=~/fleet` as it is. The report was in a directory called `~`."""
    monkeypatch.setenv("HOME", "/home/me")
    (play,) = yaml.safe_load((ROOT / "playbooks/fleet_run.yml").read_text(encoding="utf-8"))
    variables = play["tasks"][-1]["vars"]
    templar = Templar(DataLoader(), variables={"fleet_dir": "~/fleet"})
    paths = [templar.template(trust_as_template(variables[f"fleet_run_{name}"])) for name in ("dir", "progress_log")]
    assert paths == ["/home/me/fleet", "/home/me/fleet/events.jsonl"]
