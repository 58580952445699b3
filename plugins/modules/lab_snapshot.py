#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_snapshot
short_description: Take or remove a snapshot of a lab
version_added: 1.0.0
description:
  - Saves the etcd data of a lab, the keys of its control plane and the volumes of its add-on C(storage) below C(snapshots) in the lab directory.
  - The nodes must be stopped, so that nothing writes to a volume, and the control plane must be running. The playbook C(ballast.kube.lab_snapshot)
    stops the nodes and starts them again.
  - A snapshot is written to a work directory and completed by one rename. The next run removes the remains of a killed one.
  - A snapshot contains the keys of the control plane and all Secrets. Only root can read it. It is removed with the lab.
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
      - Taking a snapshot that exists and removing one that does not exist are errors.
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
  - Labs with virtual machines are refused. A snapshot contains no images, no logs and no files that containers wrote outside of volumes.
seealso:
  - module: ballast.kube.lab_restore
  - module: ballast.kube.lab_snapshots_info
"""

EXAMPLES = r"""
- name: Take a snapshot
  ballast.kube.lab_snapshot:
    name: before-trial

- name: Remove that snapshot
  ballast.kube.lab_snapshot:
    name: before-trial
    state: absent
"""

RETURN = r"""
path:
  description: Directory of the snapshot; empty when it was removed.
  returned: success, not in check mode
  type: str
  sample: /var/lib/ballast/lab/snapshots/before-trial
taken_at:
  description: When it was taken, in UTC; empty when it was removed.
  returned: success, not in check mode
  type: str
  sample: "2026-11-27T08:40:00Z"
bytes:
  description: Disk space that it uses.
  returned: success, not in check mode
  type: int
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
from ansible_collections.ballast.kube.plugins.module_utils._lab.snapshots.take import ENGINE, SPEC, desired_from_params


def main():
    run(Feature(name="lab", spec=SPEC, desired=desired_from_params, engine=ENGINE))


if __name__ == "__main__":
    main()
