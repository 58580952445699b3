#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_check
short_description: "Internal: check that every pod of a lab reaches every other pod and a Service"
version_added: 1.0.0
description:
  - Runs a pod on every node, and checks that every pod reaches every other pod, and that a Service works from every node.
  - Writes C(summary.json) in the lab's directory.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.state_dir
  - ballast.kube._attributes.progress_log
  - ballast.kube._lab_check
  - ballast.kube._lab
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Check that the lab works
  ballast.kube.lab_check:
    state_dir: /var/lib/ballast/lab/check
    lab_dir: /var/lib/ballast/lab
    kubectl: /opt/ballast/bin/kubectl
    lab: "{{ lab_record.lab }}"
    instances: "{{ lab_instances.instances }}"
    control_plane: "{{ lab_plane }}"
"""

RETURN = r"""
summary:
  description: The content of summary.json.
  returned: success
  type: dict
ballast_summary:
  description: The summary as text, for the end of a run.
  returned: success
  type: str
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
from ansible_collections.ballast.kube.plugins.module_utils._lab.check import ENGINE, SPEC, CheckRequest


def main():
    run(Feature(name="check", spec=SPEC, desired=from_options(CheckRequest.from_params), engine=ENGINE))


if __name__ == "__main__":
    main()
