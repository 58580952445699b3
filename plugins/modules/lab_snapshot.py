#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_snapshot
short_description: Take or remove a snapshot of a lab
version_added: 0.1.0
description:
  - Keeps the etcd of a lab, the keys of its control plane and the volumes of its add-on C(storage) below C(snapshots) in the directory of the lab.
  - The nodes must be stopped, so that nothing writes to a volume, and the control plane must run. The playbook C(ballast.kube.lab_snapshot)
    stops the nodes and starts them again.
  - It is made in a work directory and becomes a snapshot by one rename. What a killed run left is removed by the next one.
  - A snapshot holds the keys of the control plane and all Secrets. Only root may read it. It goes with the lab.
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
      - A snapshot that is there is never overwritten, and one that is not there is not removed. Either is an error.
options:
  state:
    description: V(present) takes a snapshot, V(absent) removes it.
    type: str
    choices: [present, absent]
    default: present
  name:
    description: Name of the snapshot, up to 40 of a-z, 0-9 and -.
    type: str
    required: true
requirements:
  - coreutils
notes:
  - Labs with virtual machines are refused. What containers wrote elsewhere than to a volume, images and logs are not in a snapshot.
seealso:
  - module: ballast.kube.lab_restore
  - module: ballast.kube.lab_snapshots_info
"""

EXAMPLES = r"""
- name: Keep the lab as it is
  ballast.kube.lab_snapshot:
    name: before-trial

- name: Remove that snapshot
  ballast.kube.lab_snapshot:
    name: before-trial
    state: absent
"""

RETURN = r"""
path:
  description: Directory of the snapshot; empty where it was removed.
  returned: success, not in check mode
  type: str
  sample: /var/lib/ballast/lab/snapshots/before-trial
taken_at:
  description: When it was taken, in UTC; empty where it was removed.
  returned: success, not in check mode
  type: str
  sample: "2026-11-27T08:40:00Z"
bytes:
  description: Disk space that it takes.
  returned: success, not in check mode
  type: int
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
from ansible_collections.ballast.kube.plugins.module_utils._lab.snapshots.take import ENGINE, SPEC, desired_from_params


def main():
    run(Feature(name="lab", spec=SPEC, desired=desired_from_params, engine=ENGINE))


if __name__ == "__main__":
    main()
