#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_nodes
short_description: "Internal: set labels and taints of a lab's nodes, and drain removed ones"
version_added: 1.0.0
description:
  - Sets labels and taints of the lab's Nodes as in its topology.
  - Drains and deletes the Node of every instance about to be removed, which an earlier run listed and O(nodes) does not.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.state_dir
  - ballast.kube._attributes.progress_log
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  plane_dir:
    description: State directory of the control plane.
    type: path
    required: true
  kubectl:
    description: Path of the C(kubectl) used to drain nodes.
    type: path
    required: true
  nodes:
    description: All nodes of the lab.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the Node.
        type: str
        required: true
      labels:
        description: Its labels. Labels of Kubernetes' own domains are unchanged.
        type: dict
      taints:
        description: Its taints. Taints of Kubernetes' own domains are unchanged.
        type: list
        elements: dict
        suboptions:
          key:
            description: Key of the taint.
            type: str
            required: true
          value:
            description: Value of the taint.
            type: str
          effect:
            description: Effect on pods that do not tolerate it.
            type: str
            required: true
"""

EXAMPLES = r"""
- name: Before the instances are changed
  ballast.kube.lab_nodes:
    state_dir: /var/lib/ballast/lab/api
    plane_dir: /var/lib/ballast/lab/plane
    kubectl: /opt/ballast/bin/kubectl
    nodes:
      - name: n1
      - name: n2
        labels:
          disk: fast
"""

RETURN = r"""
steps:
  description: What was done, or in check mode would be done, in order.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of resource.
      type: str
    verb:
      description: V(make), V(change) or V(remove).
      type: str
    title:
      description: The resource, in words.
      type: str
    target:
      description: What identifies it within its kind.
      type: str
findings:
  description: Problems found afterwards.
  returned: always
  type: list
  elements: dict
seconds:
  description: Time spent, by stage.
  returned: always
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature, from_options
from ansible_collections.ballast.kube.plugins.module_utils._lab.nodes import ENGINE, SPEC, NodesRequest


def main():
    run(Feature(name="nodes", spec=SPEC, desired=from_options(NodesRequest.from_params), engine=ENGINE))


if __name__ == "__main__":
    main()
