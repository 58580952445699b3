# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of hosts on their way into a slice of a fleet run, as Ansible itself reads them at both ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultLib, VaultSecret, VaultSecretsContext
from ansible.template import Templar
from ansible.vars.manager import VariableManager

from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.slices import slice_inventory
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.inventory import own_variables

HOSTS = ["n1", "n2"]
SECRET = VaultSecret(b"of the vault")


def read(path: Path, host: str) -> dict[str, Any]:
    """Untemplated, as the machine of Ansible and a worker have them."""
    loader = DataLoader()
    loader.set_vault_secrets([("default", SECRET)])
    inventory = InventoryManager(loader, [str(path)])
    variables: dict[str, Any] = VariableManager(loader, inventory).get_vars(host=inventory.get_host(host))
    return variables


def in_a_slice(place: Path, text: str) -> dict[str, Any]:
    """Variables of n1, templated by a worker. `text` are those that its inventory gives it."""
    given = place / "given.yml"
    given.write_text(f"all:\n  hosts:\n    n2: {{}}\n    n1:\n{text}", encoding="utf-8")
    rows = {host: own_variables(read(given, host)) for host in HOSTS}
    made = place / "slice.json"
    made.write_text(json.dumps(slice_inventory(HOSTS, rows, {}, {})), encoding="utf-8")
    variables = read(made, "n1")
    templar = Templar(DataLoader(), variables=variables)
    return {name: templar.template(variables[name]) for name in rows["n1"]}


def test_a_variable_of_a_vault_is_readable_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Secret has it in plain text: workers have no password of a vault."""
    encrypted = VaultLib([("default", SECRET)]).encrypt("pass{{word", SECRET).decode()
    monkeypatch.setattr(VaultSecretsContext, "_current", VaultSecretsContext([("default", SECRET)]))
    lines = "".join(f"        {line}\n" for line in encrypted.splitlines())
    assert in_a_slice(tmp_path, f"      password: !vault |\n{lines}") == {"password": "pass{{word"}


def test_what_is_no_template_is_none_in_a_slice(tmp_path: Path) -> None:
    text = """
      a: !unsafe "{{ lookup('pipe', 'id') }}"
      b: [{c: !unsafe "{% if x %}"}]
      d: "{{ 1 + 1 }}"
"""
    assert in_a_slice(tmp_path, text) == {"a": "{{ lookup('pipe', 'id') }}", "b": [{"c": "{% if x %}"}], "d": 2}


def test_a_date_is_what_a_template_makes_of_it(tmp_path: Path) -> None:
    assert in_a_slice(tmp_path, "      since: 2026-01-02\n      at: 2026-01-02 03:04:05\n") == {
        "since": "2026-01-02",
        "at": "2026-01-02 03:04:05",
    }


def test_a_name_that_is_no_text_is_one_in_a_slice() -> None:
    """Ansible warns of it. JSON has no other names."""
    assert own_variables({80: "http", True: "yes"}) == {"80": "http", "True": "yes"}


def test_facts_of_a_cache_do_not_reach_a_slice() -> None:
    """They change between two commands, which would be two runs; and hosts have written them. What an inventory says is kept."""
    facts = {"hostname": "n1", "python_interpreter": "/hostile"}
    row = {"ansible_facts": facts, "ansible_hostname": "n1", "ansible_python_interpreter": "/usr/bin/python3"}
    assert own_variables(row) == {"ansible_python_interpreter": "/usr/bin/python3"}


def test_variables_of_hosts_that_are_called_like_those_of_the_run_are_kept() -> None:
    row = {"fleet_region": "eu", "fleet_slices": 4, "fleet_request": {}}
    assert own_variables(row, of_the_run=["fleet_slices"]) == {"fleet_region": "eu"}


def test_variables_that_all_hosts_share_are_not_those_of_localhost() -> None:
    """Its tasks would want to become root, in an image without sudo."""
    rows = {host: {"ansible_become": True, "kube_proxy_serial": 9} for host in HOSTS}
    local = {"kube_proxy_gate_command": ["/bin/check"]}
    made = slice_inventory(HOSTS, rows, {}, {"own": 1}, local)["all"]
    assert made["vars"] == local, "what the playbook is asked by"
    (group,) = made["children"].values()
    assert group["vars"] == {"ansible_become": True, "kube_proxy_serial": 9, "own": 1}
    assert list(group["hosts"]) == HOSTS


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_has_the_same_variables_in_its_slice(tmp_path: Path, name: str) -> None:
    rows: dict[str, dict[str, Any]] = {"n1": {"a": 1, "b": "x", "c": True}, "n2": {"a": 1, "b": "y", "c": 1}}
    made = tmp_path / "slice.json"
    made.write_text(json.dumps(slice_inventory(HOSTS, rows, {"g": ["n1"]}, {"k": 2}, {"b": "local"})), encoding="utf-8")
    found = own_variables(read(made, name))
    assert {key: found[key] for key in (*rows[name], "k")} == {**rows[name], "k": 2}
    assert read(made, "localhost")["b"] == "local"
