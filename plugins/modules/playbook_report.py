#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: playbook_report
short_description: "Internal: compose the report of a playbook, and decide whether it goes on"
version_added: 1.0.0
description:
  - Composes a report for the operator from the modules' results on the hosts of a playbook. Hosts with the same result share a line.
  - Decides which nodes are changed, in which batches, and whether the run continues after a batch.
  - It runs on the Ansible control node, and reads the registered variables of this collection's playbooks.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
attributes:
  check_mode:
    support: full
    details:
      - The plan is also written in check mode, because it changes no host.
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  report:
    description: Which report.
    type: str
    required: true
    choices:
      - kube_proxy_preview
      - kube_proxy_batch
      - kube_proxy_way_back
      - kube_proxy_outcome
      - kube_proxy_audit
      - kube_proxy_cleanup
      - image_pull_proxy_preview
      - image_pull_proxy_proxies_batch
      - image_pull_proxy_kubelets
      - image_pull_proxy_kubelets_batch
      - image_pull_proxy_removal
      - image_pull_proxy_removal_batch
      - image_pull_proxy_outcome
      - balloons_preview
      - balloons_batch
      - balloons_outcome
  request:
    description: The result of M(ballast.kube.playbook_request).
    type: dict
    required: true
  batch:
    description: Hosts of the current batch, for the reports whose names end with C(_batch).
    type: list
    elements: str
    default: []
seealso:
  - module: ballast.kube.playbook_request
"""

EXAMPLES = r"""
- name: Compose the preview
  ballast.kube.playbook_report:
    report: kube_proxy_preview
    request: "{{ kube_proxy_request }}"
  register: kube_proxy_preview

- name: Show the preview
  ansible.builtin.debug:
    msg: "{{ kube_proxy_preview.lines }}"
"""

RETURN = r"""
lines:
  description: What to show.
  returned: success
  type: list
  elements: str
  sample: ["ipvs -> nftables: 496 nodes (n[001-496])"]
failure:
  description: Why the run must fail. Empty if it continues.
  returned: success
  type: str
changing:
  description: Hosts to change, in order. Empty for a preview.
  returned: for previews, and before a further stage of the pull proxy
  type: list
  elements: str
serial:
  description: Sizes of their batches.
  returned: for previews, and before a further stage of the pull proxy
  type: list
  elements: int
leaders:
  description: By host that acts for nodes of its batch, the C(machine) that sizes them and C(nodes), their entries for M(ballast.kube.balloon).
  returned: for the preview of balloons
  type: dict
silent:
  description: Why hosts did not respond before the first change.
  returned: for previews
  type: dict
machines:
  description: Machines to change; in the report of balloons, those whose reconcilers must run.
  returned: for the preview of the pull proxy and the report of balloons
  type: list
  elements: str
nodes:
  description: Nodes to change; for O(report=kube_proxy_way_back), how each is rolled back.
  returned: for the preview of the pull proxy and O(report=kube_proxy_way_back)
  type: raw
stopped:
  description: Whether an earlier stage of the pull proxy ended the run.
  returned: before a further stage of the pull proxy
  type: bool
stop:
  description: Whether the run ends with this batch.
  returned: for a batch
  type: bool
take_back:
  description: Hosts of the batch to roll back.
  returned: for a batch
  type: list
  elements: str
kept:
  description: Hosts of the batch that succeeded.
  returned: for a batch
  type: list
  elements: str
failed_hosts:
  description: Hosts of the batch that failed.
  returned: for a batch
  type: list
  elements: str
failed_so_far:
  description: Hosts of this batch and of earlier ones that failed.
  returned: for a batch
  type: list
  elements: str
gate_problems:
  description: Why the gate is closed. Empty if it is open or there is none.
  returned: for a batch
  type: list
  elements: str
rows:
  description: By host, its outcome in a word or two, and the rest of its line.
  returned: for the last report of a run that changes nodes
  type: dict
not_done:
  description: Hosts that are unfinished.
  returned: for the last report of a run that changes nodes
  type: list
  elements: str
"""
