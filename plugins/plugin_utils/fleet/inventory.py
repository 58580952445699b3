# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of a host as its inventory has them, without those that Ansible itself sets. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .given import plain

# Set by Ansible for each run (its documentation: special variables).
_OF_ANSIBLE = {
    *("ansible_check_mode", "ansible_config_file", "ansible_diff_mode", "ansible_facts", "ansible_forks"),
    *("ansible_inventory_sources", "ansible_limit", "ansible_local", "ansible_playbook_python", "ansible_run_tags"),
    *("ansible_skip_tags", "ansible_verbosity", "ansible_version", "environment", "group_names", "groups", "hostvars"),
    *("inventory_dir", "inventory_file", "inventory_hostname", "inventory_hostname_short", "omit", "playbook_dir"),
}
_OF_THE_RUN = ("fleet_",)  # variables of the machine that begins the run


def own_variables(variables: Mapping[str, Any]) -> dict[str, Any]:
    """As what JSON has."""
    return {
        name: plain(value)
        for name, value in variables.items()
        if name not in _OF_ANSIBLE and not name.startswith(_OF_THE_RUN)
    }
