#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_check_info
short_description: "Internal: check a lab with the pods of an earlier lab_check"
version_added: 1.0.0
description:
  - Queries which other pods the pods of M(ballast.kube.lab_check) reach, and whether they reach a Service. Changes nothing.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._attributes.state_dir
  - ballast.kube._attributes.progress_log
  - ballast.kube._lab_check
  - ballast.kube._lab
"""

EXAMPLES = r"""
- name: Check that the lab works
  ballast.kube.lab_check_info:
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
seconds:
  description: Time spent, by stage.
  returned: always
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info, with_seconds
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._lab.check import SPEC, CheckRequest, read_status


def main():
    run_info(SPEC, with_seconds(lambda host, params: read_status(Context(CheckRequest.from_params(params), host))))


if __name__ == "__main__":
    main()
