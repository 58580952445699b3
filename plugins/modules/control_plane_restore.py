#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: control_plane_restore
short_description: Restore a control plane of this host from a backup
version_added: 0.1.0
description:
  - Puts what M(ballast.kube.control_plane_backup) wrote into the state directory of a control plane that is not there yet, or is stopped.
  - Every digest is verified, and the data directory of etcd is made and checked, before anything that is there is changed. What it takes
    the place of is moved aside and never removed by this module.
  - M(ballast.kube.control_plane) then starts it. That replaces certificates which the restored authority did not sign, and fails
    unless etcd has the revision and the number of keys of the backup.
  - The revision that clients see is ahead of that in the backup by 1000000000, so that none of them takes the data for what it knows
    already.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.events
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
      - A second run changes nothing until the control plane is started. After that its data is newer than the backup, and the
        module refuses unless O(replace=true).
options:
  archive:
    description: Archive on the host that M(ballast.kube.control_plane_backup) wrote. When C(ARCHIVE.json) is beside it, that must fit.
    type: path
    required: true
  replace:
    description:
      - Whether data that is there may be replaced. It is moved to C(before-restore-TIME) in O(state_dir), which stays until you remove it
        or the control plane.
      - A control plane that runs is refused in either case. Stop it first.
    type: bool
    default: false
  kubernetes_version:
    description: Version that will serve the data, checked here before anything is changed. Unless it is said, it is checked when it starts.
    type: str
requirements:
  - tar and coreutils
notes:
  - A restored control plane trusts the credentials of the one that was backed up, and the other way round, since both have one authority.
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

- name: Put its data of yesterday in place
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
  description: What was restored, as RV(ballast.kube.control_plane_backup#module:backup) tells it, less the digest of the archive.
  returned: success, not in check mode
  type: dict
moved_aside:
  description: Directory that holds what was replaced; null when nothing was.
  returned: success, not in check mode
  type: str
  sample: /var/lib/ballast/lab/plane/before-restore-20261122T101431Z
steps:
  description: What was done, or in check mode would be done.
  returned: success
  type: list
  elements: dict
findings:
  description: Always empty. A backup that is not sound is an error.
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
