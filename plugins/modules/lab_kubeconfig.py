#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_kubeconfig
short_description: Add a lab to a user's own kubeconfig, or remove it
version_added: 1.0.0
description:
  - Adds the cluster, the user and the context C(ballast-NAME) of a lab to the kubeconfig of the user who runs the module, or removes them.
  - All other entries and an existing current context are unchanged. Comments are lost, as with C(kubectl config).
  - An entry of that name that this module did not create for the same lab is an error, and is never removed.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._lab
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Keys and certificates are shown as one digest.
  idempotent:
    support: full
options:
  state:
    description: Whether the context exists.
    type: str
    choices: [present, absent]
    default: present
  name:
    description: Name of the lab.
    type: str
    required: true
  kubeconfig:
    description: Content of the lab's own kubeconfig, which includes keys. Required with O(state=present).
    type: str
  path:
    description: The kubeconfig to change. The default is the first file in the variable E(KUBECONFIG), else C(~/.kube/config).
    type: path
"""

EXAMPLES = r"""
- name: Use the lab from every shell
  ballast.kube.lab_kubeconfig:
    name: lab
    kubeconfig: "{{ lab_credentials.content | b64decode }}"
  no_log: true
"""

RETURN = r"""
path:
  description: The kubeconfig.
  returned: success
  type: str
  sample: /home/me/.kube/config
context:
  description: Name of the context.
  returned: success
  type: str
  sample: ballast-lab
is_current:
  description: Whether that is the current context.
  returned: success
  type: bool
ballast_summary:
  description: The result as text, with the commands that use the context.
  returned: success
  type: str
steps:
  description: What was done; in check mode, what would be done.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of resource.
      type: str
    verb:
      description: C(make), C(change) or C(remove).
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
from ansible_collections.ballast.kube.plugins.module_utils._lab.context import ENGINE, SPEC, desired_from_params


def main():
    run(
        Feature(
            name="lab_kubeconfig",
            spec=SPEC,
            desired=from_options(desired_from_params),
            engine=ENGINE,
            required_if=[("state", "present", ["kubeconfig"])],
            needs_root=False,
        )
    )


if __name__ == "__main__":
    main()
