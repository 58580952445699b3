#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: control_plane_record
short_description: "Internal: decide the name and ports of a control plane, and record them"
version_added: 1.0.0
description:
  - Records the desired state of a control plane, with a name that is unique among control planes and labs on this host, and with free
    ports, so that several control planes can coexist. The playbook C(ballast.kube.control_plane) then provides the binaries that the record names,
    and creates the control plane with M(ballast.kube.control_plane).
  - Omitted options keep their recorded values; with M(ballast.kube.control_plane) they have their defaults.
  - Options that M(ballast.kube.control_plane) would refuse are not recorded.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.progress_log
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description: V(absent) removes the record, and fails if resources of the control plane were left behind.
    type: str
    choices: [present, absent]
    default: present
  plane_dir:
    description: Directory of the control plane. It must be new, empty, or the directory of a control plane; a directory with other files is refused.
    type: path
    required: true
  name:
    description: Its name among the control planes and labs of this host. The default for a new one is V(plane).
    type: str
  kubernetes_version:
    description: Version of Kubernetes. The default for a new one is V(1.37.2).
    type: str
  address:
    description:
      - IP address that it listens on. The default for a new one is V(127.0.0.1).
      - A new address gets new ports.
    type: str
  options:
    description:
      - Options of M(ballast.kube.control_plane), by name, except those of this module. The default profile of a new one is V(generic).
      - A given port is used instead of a free one.
    type: dict
    default: {}
  toolchain_dir:
    description: Directory with a folder for each buildable version of Kubernetes. Other versions are refused.
    type: path
"""

EXAMPLES = r"""
- name: Record the control plane of the tests
  ballast.kube.control_plane_record:
    plane_dir: /var/lib/ballast/planes/tests
    name: tests
    options:
      profile: minimal
      audit: Metadata
  register: plane_record
"""

RETURN = r"""
name:
  description: The control plane's name, also of a removed one. Empty when there was none.
  returned: success
  type: str
plane:
  description: The record, with derived values. Null with O(state=absent).
  returned: always
  type: dict
  contains:
    name:
      description: Its name.
      type: str
      sample: plane
    plane_dir:
      description: Its directory.
      type: str
      sample: /var/lib/ballast/planes/plane
    kubernetes_version:
      description: Its version of Kubernetes.
      type: str
      sample: 1.37.1
    address:
      description: The address that it listens on.
      type: str
      sample: 127.0.0.1
    ports:
      description: Its ports, by option of M(ballast.kube.control_plane).
      type: dict
      sample: {secure_port: 6443, etcd_client_port: 2379}
    options:
      description: The options of M(ballast.kube.control_plane) that were given.
      type: dict
      sample: {profile: generic}
    endpoint:
      description: Address of the API server.
      type: str
      sample: https://127.0.0.1:6443
    families:
      description: The binaries it needs, in the form of M(ballast.kube.kubernetes_binaries).
      type: list
      elements: dict
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
from ansible_collections.ballast.kube.plugins.module_utils._ansible.typed import read_typed
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.named.engine import (
    ENGINE,
    SPEC,
    resolve_request,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature


def main():
    run(
        Feature(
            name="plane",
            spec=SPEC,
            desired=lambda params, host: resolve_request(params, host, read_typed),
            engine=ENGINE,
        )
    )


if __name__ == "__main__":
    main()
