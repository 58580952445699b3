#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_info
short_description: "Internal: read the record of a lab"
version_added: 1.0.0
description:
  - Returns what M(ballast.kube.lab_record) wrote down.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._lab
"""

EXAMPLES = r"""
- name: Read the lab's nodes
  ballast.kube.lab_info:
  register: lab_record
"""

RETURN = r"""
lab:
  description: The record.
  returned: success
  type: dict
parts:
  description: Input of other modules for this lab - credentials, nodes, hosts, machines.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info
from ansible_collections.ballast.kube.plugins.module_utils._lab.engine import INFO_SPEC
from ansible_collections.ballast.kube.plugins.module_utils._lab.record import read_lab


def main():
    run_info(INFO_SPEC, lambda host, params: read_lab(host, params["lab_dir"]), needs_root=False)


if __name__ == "__main__":
    main()
