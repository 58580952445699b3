#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: balloon_info
short_description: Report the balloons of nodes, and whether their hosts provide the promised capacity
version_added: 0.1.0
description:
  - Says of each node what its pods may request, what its balloon asks for, was allocated and has, what is free, and of each host whether its
    nodes promise no more than there is.
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
      - The nodes to report; all by default. Of a row, C(name) is used, and the keys that O(slices) and O(vm) need.
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
  description: The same for people.
  returned: success
  type: str
findings:
  description: What is not as it should be.
  returned: success
  type: list
  elements: dict
readiness:
  description:
    - What was measured of the feature's production readiness, as the report of M(ballast.kube.readiness_info) takes it - C(feature),
      C(answers) by name, each with C(verdict), C(text), C(how), C(remedy), C(figures), C(lines) and C(failure_modes), C(present), the
      failure modes that were found, and C(versions).
    - Where failure modes explain an answer, its C(text) or C(remedy) may be empty. The report fills it in.
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
