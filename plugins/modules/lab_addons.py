#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_addons
short_description: "Internal: create and remove the API objects of a lab's add-ons"
version_added: 1.0.0
description:
  - Creates the API objects of a lab's add-ons, and removes those of disabled add-ons.
  - An object that an earlier run created from the same definition is left unchanged, even if somebody has edited it.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.state_dir
  - ballast.kube._attributes.progress_log
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  plane_dir:
    description: State directory of the control plane.
    type: path
    required: true
  lab:
    description: The record of the lab, which names its add-ons, RV(ballast.kube.lab_record#module:lab).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: CoreDNS, where the lab has the add-on dns
  ballast.kube.lab_addons:
    state_dir: /var/lib/ballast/lab/addons
    plane_dir: /var/lib/ballast/lab/plane
    lab: "{{ lab_record.lab }}"
"""

RETURN = r"""
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
from ansible_collections.ballast.kube.plugins.module_utils._lab.addons.catalog import ENGINE, SPEC, AddonsRequest


def main():
    run(Feature(name="addons", spec=SPEC, desired=from_options(AddonsRequest.from_params), engine=ENGINE))


if __name__ == "__main__":
    main()
