#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: labs_info
short_description: List the labs of a machine
version_added: 0.1.0
description:
  - Returns the labs of the machine that it runs on, and asks the API server of each for its nodes.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
options: {}
"""

EXAMPLES = r"""
- name: Which labs are there
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
      description: Its version of Kubernetes; empty where it cannot be known.
      type: str
      sample: 1.37.1
    nodes:
      description: Number of nodes that it has by its record.
      type: int
    ready:
      description: Number of nodes that are Ready.
      type: int
    state:
      description:
        - V(running), V(stopped) where the API server does not answer,
          V(lost) where its directory was deleted, or V(unreadable) where its record or its kubeconfig is damaged.
      type: str
ballast_summary:
  description: The same as a table.
  returned: success
  type: str
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info
from ansible_collections.ballast.kube.plugins.module_utils._lab.labs import SPEC, read_labs


def main():
    run_info(SPEC, read_labs)


if __name__ == "__main__":
    main()
