#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: control_plane_restore
short_description: Restore a control plane of this host from a backup
version_added: 1.0.0
description:
  - Restores a backup of M(ballast.kube.control_plane_backup) into the state directory of a new or stopped control plane.
  - It verifies every digest, and creates and checks the data directory of etcd, before it changes existing files. It moves replaced data
    to another directory and never removes it.
  - M(ballast.kube.control_plane) then starts it. This replaces certificates that the restored authority did not sign, and fails unless
    etcd has the revision and the number of keys of the backup.
  - The revision that clients see is 1000000000 higher than that of the backup, so that clients notice the change of data.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.progress_log
  - ballast.kube._control_plane
  - ballast.kube._control_plane.operation
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - A second run changes nothing until the control plane is started. Then its data is newer than the backup, and the module fails unless O(replace=true).
options:
  archive:
    description: Archive on the host that M(ballast.kube.control_plane_backup) wrote. If C(ARCHIVE.json) exists next to it, it must match.
    type: path
    required: true
  replace:
    description:
      - Whether existing data may be replaced. It is moved to C(before-restore-TIME) in O(state_dir), which is kept until you remove it or the control plane.
      - A running control plane is refused in either case. Stop it first.
    type: bool
    default: false
  kubernetes_version:
    description: Kubernetes version that will use the data, checked before any change. When omitted, the check happens when the control plane starts.
    type: str
requirements:
  - tar and coreutils
notes:
  - A restored control plane and the backed-up one trust each other's credentials, because both have the same authority.
seealso:
  - module: ballast.kube.control_plane_backup
  - module: ballast.kube.control_plane
"""

EXAMPLES = r"""
- name: Stop the control plane of the lab
  ballast.kube.control_plane:
    state_dir: /var/lib/ballast/lab/plane
    state: stopped
    kubernetes_version: 1.37.1
    bin_dir: "{{ kubernetes_binaries_bin_dir }}"
    address: 10.97.1.1

- name: Restore its data of yesterday
  ballast.kube.control_plane_restore:
    state_dir: /var/lib/ballast/lab/plane
    archive: /var/backups/lab-20261121T101431Z.tar
    replace: true

- name: Start it
  ballast.kube.control_plane:
    state_dir: /var/lib/ballast/lab/plane
    kubernetes_version: 1.37.1
    bin_dir: "{{ kubernetes_binaries_bin_dir }}"
    address: 10.97.1.1
"""

RETURN = r"""
backup:
  description: Facts about the restored backup, as in RV(ballast.kube.control_plane_backup#module:backup), without the digest of the archive.
  returned: success, not in check mode
  type: dict
moved_aside:
  description: Directory with the replaced data; null when nothing was replaced.
  returned: success, not in check mode
  type: str
  sample: /var/lib/ballast/lab/plane/before-restore-20261122T101431Z
steps:
  description: What was done, or in check mode would be done.
  returned: success
  type: list
  elements: dict
findings:
  description: Always empty. An invalid backup is an error.
  returned: success
  type: list
  elements: dict
seconds:
  description: Time spent, by stage.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.restore import (
    ENGINE,
    RestoreRequest,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.spec import RESTORE
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature, from_options


def main():
    run(Feature(name="plane", spec=RESTORE, desired=from_options(RestoreRequest.from_params), engine=ENGINE))


if __name__ == "__main__":
    main()
