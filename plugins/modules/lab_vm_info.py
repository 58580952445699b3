#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_vm_info
short_description: "Internal: list the virtual machines of a lab"
version_added: 1.0.0
description:
  - Returns the virtual machines that M(ballast.kube.lab_vm) created, and whether they are running.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._attributes.state_dir
seealso:
  - module: ballast.kube.lab_vm
"""

EXAMPLES = r"""
- name: The machines of the lab
  ballast.kube.lab_vm_info:
    state_dir: /var/lib/ballast/lab/vms
  register: lab_vms
"""

RETURN = r"""
engine:
  description: What runs the machines; empty when there are none.
  returned: success
  type: str
  sample: uml
why:
  description: Why this engine was chosen.
  returned: success
  type: str
ssh_key:
  description: Private key with which root logs in.
  returned: success
  type: str
vms:
  description: The machines.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
    address:
      description: Its address.
      type: str
    engine:
      description: What runs it.
      type: str
    running:
      description: Whether it is running.
      type: bool
    pid:
      description: Its process id, 0 when it is not running.
      type: int
    console:
      description: File with its console output.
      type: str
    ssh_arguments:
      description: Options for ssh, in addition to the key.
      type: str
seconds:
  description: Time spent, by stage.
  returned: always
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import report_of, run_info
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import from_options
from ansible_collections.ballast.kube.plugins.module_utils._vm.model import INFO_SPEC, VmRequest
from ansible_collections.ballast.kube.plugins.module_utils._vm.vm import ENGINE


def main():
    run_info(INFO_SPEC, report_of(ENGINE, from_options(VmRequest.to_read)))


if __name__ == "__main__":
    main()
