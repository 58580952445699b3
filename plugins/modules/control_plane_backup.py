#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: control_plane_backup
short_description: Back up a control plane of this host
version_added: 1.0.0
description:
  - Takes a snapshot of the etcd of a running control plane, checks it, and writes one file with the snapshot and the keys that a restore needs.
  - These are the keys of encryption at rest, the key pair of ServiceAccount tokens, the authority of the cluster and that of the front
    proxy. The file is as secret as the control plane itself, and its mode is 0600. Store it only where these keys may be stored.
  - The file is an uncompressed tar archive of the snapshot, these files and C(backup.json) with their digests. C(PATH.json) next to it
    has the same facts without secrets.
  - The archive at O(path) is always complete, either the earlier or the new one, also when the run is killed or the disk is full.
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
    support: none
    details:
      - Each run takes a backup and replaces an existing one. Include the date in O(path) to keep several.
options:
  path:
    description:
      - Path of the archive. Its directory must exist, with free space for twice the data of etcd.
      - An existing file that is not a backup is never overwritten.
    type: path
    required: true
requirements:
  - tar and coreutils
notes:
  - An existing etcd (O(ballast.kube.control_plane#module:etcd=existing)) is not backed up, because a snapshot contains the data of all its users.
seealso:
  - module: ballast.kube.control_plane_restore
  - module: ballast.kube.control_plane
"""

EXAMPLES = r"""
- name: Back up the control plane of the lab
  ballast.kube.control_plane_backup:
    state_dir: /var/lib/ballast/lab/plane
    path: /var/backups/lab-{{ now(utc=true).strftime('%Y%m%dT%H%M%SZ') }}.tar
"""

RETURN = r"""
archive:
  description: Path of the backup.
  returned: success, not in check mode
  type: str
  sample: /var/backups/lab-20261122T101431Z.tar
backup:
  description: Facts about the backup, as in C(PATH.json).
  returned: success, not in check mode
  type: dict
  contains:
    name:
      description: Name of the control plane.
      type: str
      sample: lab
    profile:
      description: Its profile.
      type: str
      sample: generic
    deployment_mode:
      description: Its deployment mode.
      type: str
      sample: separate
    kubernetes_version:
      description: Kubernetes version that used the data. This version or the next minor version can use the restored data.
      type: str
      sample: 1.37.1
    etcd_version:
      description: Version of etcd.
      type: str
      sample: 3.6.14
    service_network:
      description: Network of the Services, empty when there are none.
      type: str
      sample: 10.96.0.0/16
    revision:
      description: Revision of the data.
      type: int
      sample: 4711
    keys:
      description: Number of keys at this revision.
      type: int
      sample: 312
    hash:
      description: Hash of the snapshot, as C(etcdutl snapshot status) reports it.
      type: int
      sample: 2018032517
    size_bytes:
      description: Size of the snapshot.
      type: int
      sample: 1986592
    taken_at:
      description: When it was taken, in UTC.
      type: str
      sample: "2026-11-22T10:14:31Z"
    archive_sha256:
      description: SHA-256 of the archive.
      type: str
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
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.backup import ENGINE, BackupRequest
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.spec import BACKUP
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature, from_options


def main():
    run(Feature(name="plane", spec=BACKUP, desired=from_options(BackupRequest.from_params), engine=ENGINE))


if __name__ == "__main__":
    main()
