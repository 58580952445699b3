#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_restore
short_description: Restore a stopped lab from a snapshot
version_added: 1.0.0
description:
  - Replaces the etcd data and the volumes of a lab with those of a snapshot by M(ballast.kube.lab_snapshot). The lab must be stopped.
    The playbook C(ballast.kube.lab_restore) stops it and starts it again.
  - It copies volumes first, restores etcd, and then renames the volumes into place. After an interrupted restore, the lab does not start
    until the same restore is run again.
  - It refuses a snapshot with another minor version of Kubernetes, or with nodes or add-ons that the lab lacks. Newer nodes and add-ons
    remain, but their volumes are removed.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.progress_log
  - ballast.kube._lab
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: none
    details:
      - Each run restores, because changes since the snapshot are unknown.
options:
  name:
    description: Name of the snapshot.
    type: str
    required: true
requirements:
  - coreutils
notes:
  - The replaced etcd data is moved to C(plane/before-restore-TIME) in the lab directory. The replaced volumes are removed.
seealso:
  - module: ballast.kube.lab_snapshot
  - module: ballast.kube.lab_snapshots_info
"""

EXAMPLES = r"""
- name: Bring the stopped lab back
  ballast.kube.lab_restore:
    name: before-trial
"""

RETURN = r"""
taken_at:
  description: When the snapshot was taken, in UTC.
  returned: success, not in check mode
  type: str
  sample: "2026-11-27T08:40:00Z"
steps:
  description: What was done, or in check mode would be done.
  returned: success
  type: list
  elements: dict
findings:
  description: Problems found afterwards.
  returned: success
  type: list
  elements: dict
seconds:
  description: Time spent, by stage.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature
from ansible_collections.ballast.kube.plugins.module_utils._lab.snapshots.restore import (
    ENGINE,
    SPEC,
    desired_from_params,
)


def main():
    run(Feature(name="lab", spec=SPEC, desired=desired_from_params, engine=ENGINE))


if __name__ == "__main__":
    main()
