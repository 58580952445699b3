#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: plane_info
short_description: "Internal: read the record of a control plane"
version_added: 1.0.0
description:
  - Returns the record that M(ballast.kube.plane) wrote.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
options:
  plane_dir:
    description: Directory of the control plane.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Read the address of the control plane
  ballast.kube.plane_info:
    plane_dir: /var/lib/ballast/planes/tests
  register: plane_record
"""

RETURN = r"""
plane:
  description: The record, with derived values, as M(ballast.kube.plane) returns it.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.named.engine import INFO_SPEC, read_named


def main():
    run_info(INFO_SPEC, lambda host, params: read_named(host, params["plane_dir"]), needs_root=False)


if __name__ == "__main__":
    main()
