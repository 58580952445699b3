#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_snapshots_info
short_description: List the snapshots of a lab
version_added: 1.0.0
description:
  - Returns the snapshots that M(ballast.kube.lab_snapshot) has taken of a lab, oldest first.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._lab
seealso:
  - module: ballast.kube.lab_snapshot
  - module: ballast.kube.lab_restore
"""

EXAMPLES = r"""
- name: List the snapshots
  ballast.kube.lab_snapshots_info:
  register: lab_snapshots
"""

RETURN = r"""
snapshots:
  description: The snapshots, oldest first.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the snapshot.
      type: str
      sample: before-trial
    taken_at:
      description: When it was taken, in UTC; empty for a snapshot by another version of the collection, which can only be removed.
      type: str
      sample: "2026-11-27T08:40:00Z"
    kubernetes_version:
      description: Version of Kubernetes that the lab had.
      type: str
      sample: 1.37.1
    nodes:
      description: Nodes that the lab had.
      type: list
      elements: str
    addons:
      description: Add-ons that the lab had.
      type: list
      elements: str
    bytes:
      description: Disk space that it uses.
      type: int
ballast_summary:
  description: The result as a table.
  returned: success
  type: str
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info
from ansible_collections.ballast.kube.plugins.module_utils._lab.snapshots.store import INFO_SPEC, read_snapshots


def main():
    run_info(INFO_SPEC, read_snapshots)


if __name__ == "__main__":
    main()
