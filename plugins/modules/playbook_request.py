#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: playbook_request
short_description: "Internal: check the variables of a playbook"
version_added: 1.0.0
description:
  - The first task of the collection's playbooks. Checks the request before any host is contacted, and reports all problems together.
  - Refuses an unknown variable given with C(-e), and suggests the nearest known name. In an inventory, other programs can have variables
    with the same prefix, so there it refuses only misspelt known names.
  - Refuses a missing C(PREFIX_hosts), a selection with a part that matches no host, and invalid values.
  - It runs on the Ansible control node.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - It changes nothing.
  idempotent:
    support: full
options:
  playbook:
    description: Name of the playbook; V(lab) for the playbooks of a lab, V(lab_up) for the one that reads files of the request.
    type: str
    required: true
    choices: [kube_proxy_migrate, kube_proxy_rollback, kube_proxy_audit, kube_proxy_cleanup, image_pull_proxy, balloons, readiness, fleet_run, lab, lab_up]
seealso:
  - module: ballast.kube.playbook_report
"""

EXAMPLES = r"""
- name: Check the request
  ballast.kube.playbook_request:
    playbook: kube_proxy_migrate
  register: kube_proxy_request
"""

RETURN = r"""
hosts:
  description: The selected hosts, in the order of the inventory.
  returned: success
  type: list
  elements: str
  sample: [n1, n2]
acts:
  description: Whether the run continues after the preview, because of C(PREFIX_confirm) or check mode.
  returned: success
  type: bool
canaries:
  description: Hosts to change first.
  returned: success
  type: list
  elements: str
serial:
  description: Sizes of the batches, as numbers of nodes or shares of the selection.
  returned: success
  type: list
  elements: raw
  sample: [1, 5, 10%]
max_fail:
  description: Number of nodes that may fail before the run ends.
  returned: success
  type: int
mode:
  description: The requested mode of kube-proxy. Empty for other playbooks.
  returned: success
  type: str
admin_kubeconfig:
  description: The kubeconfig with which DaemonSets are changed. Empty if no DaemonSet runs kube-proxy.
  returned: success
  type: str
plan_file:
  description: Path that M(ballast.kube.playbook_report) writes the plan to. Empty for none.
  returned: success
  type: str
gate:
  description: Conditions for the next batch to begin.
  returned: success
  type: dict
details:
  description: Of the pull proxy and balloons, which nodes are on which machines.
  returned: success
  type: dict
acting:
  description: Of the pull proxy and balloons, the nodes and machines to change. Empty for a preview.
  returned: success
  type: dict
"""
