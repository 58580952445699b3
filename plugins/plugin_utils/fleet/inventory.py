# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of a host as in its inventory, without those that Ansible itself sets. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ansible.template import is_trusted_as_template

# Set by Ansible for each run (see "special variables" in its documentation).
_OF_ANSIBLE = {
    *("ansible_check_mode", "ansible_config_file", "ansible_diff_mode", "ansible_facts", "ansible_forks"),
    *("ansible_inventory_sources", "ansible_limit", "ansible_local", "ansible_playbook_python", "ansible_run_tags"),
    *("ansible_skip_tags", "ansible_verbosity", "ansible_version", "environment", "group_names", "groups", "hostvars"),
    *("inventory_dir", "inventory_file", "inventory_hostname", "inventory_hostname_short", "omit", "playbook_dir"),
}
# Set by the playbook that starts the run, and by a worker.
_OF_PLAYBOOKS = {"fleet_request", "fleet_slice"}
_TEMPLATES = ("{{", "{%", "{#", "#jinja2:")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def own_variables(variables: Mapping[Any, Any], of_the_run: Collection[str] = ()) -> dict[str, Any]:
    """The host's own variables as JSON data, without `of_the_run`, names of variables of the machine that begins the run. Expressions
    stay as written: a worker evaluates the same texts that Ansible would here, and never a text that a host has written."""
    left_out = {*_OF_ANSIBLE, *_OF_PLAYBOOKS, *of_the_run}
    facts = variables.get("ansible_facts") or {}
    return {
        str(name): _as_json(value)
        for name, value in variables.items()
        if name not in left_out and not _is_fact(str(name), value, facts)
    }


def variables_of_localhost(
    variables: Mapping[str, Any], known: Collection[str], extra: Mapping[str, Any]
) -> dict[str, Any]:
    """Those of `variables`, in the form of `own_variables`, that the playbook reads on localhost: the `known` ones, and those that
    expressions in these and in `extra` name. Connection variables are left out: in a pod they would apply to hosts too."""
    chosen = set[str]()
    names = [*known, *_named_in(list(extra.values()))]
    while names:
        name = names.pop()
        if name in variables and name not in chosen and (name in known or not name.startswith("ansible_")):
            chosen.add(name)
            names += _named_in(variables[name])
    return {name: value for name, value in variables.items() if name in chosen}


def _named_in(value: Any) -> Iterator[str]:
    """Words in the expressions of a value; those that are no variables too."""
    if isinstance(value, str) and any(sign in value for sign in _TEMPLATES):
        yield from _NAME.findall(value)
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for part in parts:
        yield from _named_in(part)


def _is_fact(name: str, value: Any, facts: Mapping[str, Any]) -> bool:
    """Whether the variable is a cached fact. One that differs from the fact of its name is from the inventory, as connection
    variables are."""
    fact = name.removeprefix("ansible_")
    return name.startswith("ansible_") and fact in facts and bool(facts[fact] == value)


def _as_json(value: Any) -> Any:
    """Vaulted text is decrypted here, as it is put into the Secret of the run."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_as_json(part) for part in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = str(value)
    if any(sign in text for sign in _TEMPLATES) and not is_trusted_as_template(value):
        return {"__ansible_unsafe": text}  # the form in Ansible's JSON
    return text
