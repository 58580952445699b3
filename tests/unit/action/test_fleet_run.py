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
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.manager import VariableManager

from ansible_collections.ballast.kube.plugins.action.fleet_run import ActionModule

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


def given_to_the_module(place: Path, hosts: list[str], *, limit: str = "", local: str = "") -> dict[str, Any]:
    (place / "hosts.yml").write_text(INVENTORY, encoding="utf-8")
    (place / "host_vars").mkdir()
    (place / "host_vars/localhost.yml").write_text(local, encoding="utf-8")
    loader = DataLoader()
    inventory = InventoryManager(loader, [str(place / "hosts.yml")])
    inventory.subset(limit or None)
    inventory.restrict_to_hosts([inventory.get_host("localhost")])  # as in a play of it
    manager = VariableManager(loader, inventory)
    manager._extra_vars = {"fleet_slices": 2, "kube_proxy_mode": "nftables"}
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
