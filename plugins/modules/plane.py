#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: plane
short_description: "Internal: decide the name and ports of a control plane, and record them"
version_added: 0.1.0
description:
  - Writes down what a control plane is to be, with a name that no other plane or lab of this host has, and with ports that are free, so
    that several planes live side by side. M(ballast.kube.control_plane) makes it then, as the playbook C(ballast.kube.control_plane) does.
  - What is not said stays as it was recorded. Nothing is recorded that M(ballast.kube.control_plane) would refuse.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.events
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description: V(absent) forgets the plane, and fails when something of it stayed.
    type: str
    choices: [present, absent]
    default: present
  plane_dir:
    description: Directory of the plane. One that does not exist yet or is empty, or that of a plane; a directory with other files is refused.
    type: path
    required: true
  name:
    description: Its name among the planes and labs of this host. The default for a new one is V(plane).
    type: str
  kubernetes_version:
    description: Version of Kubernetes. The default for a new one is V(1.37.2).
    type: str
  address:
    description:
      - IP address that it listens on. The default for a new one is V(127.0.0.1).
      - With another address new ports are chosen.
    type: str
  options:
    description:
      - Options of M(ballast.kube.control_plane), by name, beside those that are decided here. The profile of a new one is V(generic).
      - A port that is given is taken instead of a free one.
    type: dict
    default: {}
  toolchain_dir:
    description: Directory with a folder for each version of Kubernetes that can be built. Another version is then refused.
    type: path
"""

EXAMPLES = r"""
- name: Decide what the plane of the tests is
  ballast.kube.plane:
    plane_dir: /var/lib/ballast/planes/tests
    name: tests
    options:
      profile: minimal
      audit: Metadata
  register: plane_record
"""

RETURN = r"""
name:
  description: The control plane's name, also of one that is removed. Empty where there was none.
  returned: success
  type: str
plane:
  description: The record, with what follows from it. Null with O(state=absent).
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
      description: The programs it needs, as M(ballast.kube.kubernetes_binaries) takes them.
      type: list
      elements: dict
steps:
  description: What was done, or in check mode would be done, in order.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of thing.
      type: str
    verb:
      description: V(make), V(change) or V(remove).
      type: str
    title:
      description: The thing, in words.
      type: str
    target:
      description: What identifies it within its kind.
      type: str
findings:
  description: What was found wrong afterwards.
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
