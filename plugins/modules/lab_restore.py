#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_restore
short_description: Restore a stopped lab from a snapshot
version_added: 0.1.0
description:
  - Puts the etcd and the volumes of a snapshot of M(ballast.kube.lab_snapshot) in the place of those of the lab. The lab must be stopped. The
    playbook C(ballast.kube.lab_restore) stops it and starts it again.
  - Volumes are copied first, and change places by renames after etcd was restored. Of a run that is cut off in between, a note stays with
    which the lab does not start until the same restore was run again.
  - Refused where the lab has another minor version of Kubernetes than the snapshot, or lacks nodes or add-ons of it. Nodes and add-ons that came
    since stay, and their volumes are removed.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.events
  - ballast.kube._lab
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: none
    details:
      - Each run restores, as what the lab did since is not known.
options:
  name:
    description: Name of the snapshot.
    type: str
    required: true
requirements:
  - coreutils
notes:
  - The etcd that is replaced is moved to C(plane/before-restore-TIME) in the directory of the lab. The volumes that are replaced are removed.
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
  description: What was found wrong afterwards.
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
