#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_drain
short_description: "Internal: drain nodes of a lab while their binaries are replaced"
version_added: 1.0.0
description:
  - Cordons and drains the Nodes in O(nodes), as C(kubectl drain) does.
  - Uncordons a Node that was drained earlier and is not in O(nodes), unless it was cordoned before its drain.
  - Fails when a Node's pods cannot be evicted, often because of a PodDisruptionBudget, and uncordons that Node.
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
    description: Names of all Nodes to drain now. An empty list ends every drain.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Drain a node before its binaries are replaced
  ballast.kube.lab_drain:
    state_dir: /var/lib/ballast/lab/drain
    plane_dir: /var/lib/ballast/lab/plane
    kubectl: /opt/ballast/bin/kubectl
    nodes: [n1]

- name: Afterwards
  ballast.kube.lab_drain:
    state_dir: /var/lib/ballast/lab/drain
    plane_dir: /var/lib/ballast/lab/plane
    kubectl: /opt/ballast/bin/kubectl
    nodes: []
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
from ansible_collections.ballast.kube.plugins.module_utils._lab.drain import ENGINE, SPEC, DrainRequest


def main():
    run(Feature(name="drain", spec=SPEC, desired=from_options(DrainRequest.from_params), engine=ENGINE))


if __name__ == "__main__":
    main()
