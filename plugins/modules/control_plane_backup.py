#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: control_plane_backup
short_description: Back up a control plane of this host
version_added: 0.1.0
description:
  - Takes a snapshot of the etcd of a control plane that runs, checks it, and writes it as one file with what a restore needs beside it.
  - That is the keys of encryption at rest, the key pair of ServiceAccount tokens, the authority of the cluster and that of the front proxy.
    So the file is as secret as the control plane itself, and its mode is 0600. Keep it where the keys may be.
  - The file is a tar archive, without compression, of the snapshot, these files and C(backup.json), which has their digests. Beside it
    stands C(PATH.json) with the same facts without a secret.
  - The archive at O(path) is the earlier one or the new one, each whole, also when the run is killed or the disk is full.
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
    support: none
    details:
      - Each run takes a backup, in the place of the one that is there. Put the date into O(path) to keep several.
options:
  path:
    description:
      - Where the archive is written. Its directory must be there, with room for twice the data of etcd.
      - A file that is there and is no backup is never overwritten.
    type: path
    required: true
requirements:
  - tar and coreutils
notes:
  - An etcd that was there before (O(ballast.kube.control_plane#module:etcd=existing)) is not backed up, since a snapshot of it holds the data of all
    its users.
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
  description: The file that was written.
  returned: success, not in check mode
  type: str
  sample: /var/backups/lab-20261122T101431Z.tar
backup:
  description: What it is a backup of; the content of the file beside it.
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
    shape:
      description: Its shape.
      type: str
      sample: separate
    kubernetes_version:
      description: Version that served the data. It, or one minor version after it, may serve what is restored.
      type: str
      sample: 1.37.1
    etcd_version:
      description: Version of etcd.
      type: str
      sample: 3.6.14
    service_network:
      description: Network of the Services, empty where there are none.
      type: str
      sample: 10.96.0.0/16
    revision:
      description: Revision of the data.
      type: int
      sample: 4711
    keys:
      description: Keys that there were at this revision.
      type: int
      sample: 312
    hash:
      description: Hash of the snapshot, as C(etcdutl snapshot status) tells it.
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
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.backup import ENGINE, BackupRequest
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.spec import BACKUP
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature, from_options


def main():
    run(Feature(name="plane", spec=BACKUP, desired=from_options(BackupRequest.from_params), engine=ENGINE))


if __name__ == "__main__":
    main()
