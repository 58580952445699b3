#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: balloon_info
short_description: Report the balloons of nodes, and whether their hosts provide the promised capacity
version_added: 1.0.0
description:
  - Reports for each node what its pods may request, what its balloon requests, was allocated and has, and what is free, and for each host
    whether it is overcommitted.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._balloon
  - ballast.kube._connection
  - ballast.kube._readiness
options:
  nodes:
    description:
      - The nodes to report; all by default. In an entry, C(name) is used, and the keys that O(slices) and O(vm) need.
seealso:
  - module: ballast.kube.balloon
"""

EXAMPLES = r"""
- name: Look at all nodes
  ballast.kube.balloon_info:
    kubeconfig: /etc/kubernetes/admin.conf
  register: balloons

- name: Show them
  ansible.builtin.debug:
    msg: "{{ balloons.table.splitlines() }}"
"""

RETURN = r"""
nodes:
  description: As of M(ballast.kube.balloon), without outcomes.
  returned: success
  type: list
  elements: dict
hosts:
  description: As of M(ballast.kube.balloon).
  returned: success
  type: list
  elements: dict
table:
  description: The same as a text table.
  returned: success
  type: str
findings:
  description: Problems.
  returned: success
  type: list
  elements: dict
readiness:
  description:
    - Measured production readiness of the feature, in the form that M(ballast.kube.readiness_info) reads - C(feature),
      C(answers) by name, each with C(verdict), C(text), C(how), C(remedy), C(figures), C(lines) and C(failure_modes), C(present), the
      failure modes that were found, and C(versions).
    - If failure modes explain an answer, its C(text) or C(remedy) may be empty. The report fills it in.
  returned: O(readiness=true)
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info
from ansible_collections.ballast.kube.plugins.module_utils._balloon.info import read_params
from ansible_collections.ballast.kube.plugins.module_utils._balloon.request import INFO_SPEC


def main() -> None:
    run_info(INFO_SPEC, read_params, needs_root=False)


if __name__ == "__main__":
    main()
