#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: playbook_request
short_description: "Internal: check the variables of a playbook"
version_added: 0.1.0
description:
  - The first task of the collection's playbooks. Checks what was asked before any host is reached, and reports all problems together.
  - Refuses a variable given with C(-e) that the playbook does not have, and names the nearest that it has. In an inventory other programs may
    have variables of the same prefix, so there a name is refused only where it is a known one with a letter or two wrong.
  - Refuses a playbook without C(PREFIX_hosts), a selection with a part that matches no host, and values of the wrong form.
  - It runs on the machine of Ansible.
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
    description: Name of the playbook; V(lab) for all of a lab.
    type: str
    required: true
    choices: [kube_proxy_migrate, kube_proxy_rollback, kube_proxy_audit, kube_proxy_cleanup, image_pull_proxy, balloons, readiness, fleet_run, lab]
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
  description: Whether the run may go beyond a preview, by C(PREFIX_confirm) or in check mode.
  returned: success
  type: bool
canaries:
  description: Hosts that are changed first.
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
  description: How many nodes may fail before the run ends.
  returned: success
  type: int
mode:
  description: The mode of kube-proxy that was asked for. Empty for other playbooks.
  returned: success
  type: str
admin_kubeconfig:
  description: The kubeconfig with which DaemonSets are changed. Empty where none runs kube-proxy.
  returned: success
  type: str
plan_file:
  description: Path that M(ballast.kube.playbook_report) writes the plan to. Empty for none.
  returned: success
  type: str
gate:
  description: What has to hold before the next batch begins.
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
