#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: labs_info
short_description: List the labs of a machine
version_added: 1.0.0
description:
  - Returns the labs of the machine that the module runs on, and queries the API server of each for its nodes.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
options: {}
"""

EXAMPLES = r"""
- name: List the labs
  ballast.kube.labs_info:
  register: machine_labs
"""

RETURN = r"""
labs:
  description: The labs, by name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the lab.
      type: str
      sample: lab
    lab_dir:
      description: Its directory.
      type: str
      sample: /var/lib/ballast/lab
    kubernetes_version:
      description: Its version of Kubernetes; empty when unknown.
      type: str
      sample: 1.37.1
    nodes:
      description: Number of nodes in its record.
      type: int
    ready:
      description: Number of nodes that are Ready.
      type: int
    state:
      description:
        - V(running), V(stopped) if the API server does not respond, V(lost) if its directory was deleted, or V(unreadable) if its record
          or its kubeconfig is damaged.
      type: str
ballast_summary:
  description: The result as a table.
  returned: success
  type: str
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info
from ansible_collections.ballast.kube.plugins.module_utils._lab.labs import SPEC, read_labs


def main():
    run_info(SPEC, read_labs)


if __name__ == "__main__":
    main()
