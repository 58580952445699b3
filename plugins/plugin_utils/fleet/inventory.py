# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of a host as its inventory has them, without those that Ansible itself sets. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ansible.template import is_trusted_as_template

# Set by Ansible for each run (its documentation: special variables).
_OF_ANSIBLE = {
    *("ansible_check_mode", "ansible_config_file", "ansible_diff_mode", "ansible_facts", "ansible_forks"),
    *("ansible_inventory_sources", "ansible_limit", "ansible_local", "ansible_playbook_python", "ansible_run_tags"),
    *("ansible_skip_tags", "ansible_verbosity", "ansible_version", "environment", "group_names", "groups", "hostvars"),
    *("inventory_dir", "inventory_file", "inventory_hostname", "inventory_hostname_short", "omit", "playbook_dir"),
}
# Set by the playbook that begins the run, and by a worker.
_OF_PLAYBOOKS = {"fleet_request", "fleet_slice"}
_TEMPLATES = ("{{", "{%", "{#", "#jinja2:")


def own_variables(variables: Mapping[str, Any], of_the_run: Collection[str] = ()) -> dict[str, Any]:
    """As what JSON has; `of_the_run` are names of variables of the machine that begins it. Untemplated: a worker that reads them makes
    templates of the same texts as Ansible does here, and of no others, as those that a host has written."""
    left_out = {*_OF_ANSIBLE, *_OF_PLAYBOOKS, *of_the_run}
    facts = variables.get("ansible_facts") or {}
    return {
        name: _as_json(value)
        for name, value in variables.items()
        if name not in left_out and not _is_fact(name, value, facts)
    }


def _is_fact(name: str, value: Any, facts: Mapping[str, Any]) -> bool:
    """Of a cache of facts. A connection variable has its value from the inventory, whatever a fact of that name says."""
    fact = name.removeprefix("ansible_")
    return name.startswith("ansible_") and fact in facts and bool(facts[fact] == value)


def _as_json(value: Any) -> Any:
    """A text of a vault is decrypted here: it is in the Secret of the run."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_as_json(part) for part in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = str(value)
    if any(sign in text for sign in _TEMPLATES) and not is_trusted_as_template(value):
        return {"__ansible_unsafe": text}  # as Ansible's JSON has it
    return text
