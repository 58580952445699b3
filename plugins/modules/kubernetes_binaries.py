#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_binaries
short_description: Build, download or import the binaries of Kubernetes, etcd, containerd and CNI
version_added: 1.0.0
description:
  - Provides the binaries of a Kubernetes lab or node in a cache on this machine, and a directory of links to exactly the requested ones.
  - The cache key of a binary is its version, pinned modules, Go toolchain and build flags. Different versions coexist, and a second run builds nothing.
  - Before a binary is installed, it must report its version. Each built API server runs once on loopback, and must become ready and
    serve its OpenAPI documents.
  - Each run compares every binary with its recorded SHA-256. A difference is an error, and the binary is not replaced.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._binaries
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description: V(absent) removes everything that this module created in O(cache_dir), regardless of the other options.
    type: str
    choices: [present, absent]
    default: present
  progress_log:
    description: File to which progress is appended, one JSON object per line, so that you can follow a long build.
    type: path
    aliases: [events]
requirements:
  - Go for source V(go), in the version that the C(go.mod) requires; C(openssl) for the trial run of API servers
  - curl for source V(release)
notes:
  - Without a cache, a build of Kubernetes takes about seven minutes on two cores, and 6 GiB of disk for Go's caches.
  - C(GOPROXY), C(GOSUMDB), C(GOPRIVATE), C(GOMODCACHE), C(GOCACHE), C(GOTOOLCHAIN) and similar variables, and the usual proxy variables,
    are passed to Go from the environment of the task. Variables that would change the binaries, such as C(GOFLAGS), are not.
  - runc is not included; install the distribution's package.
seealso:
  - module: ballast.kube.kubernetes_binaries_info
"""

EXAMPLES = r"""
- name: Build everything that a lab needs
  ballast.kube.kubernetes_binaries:
    toolchain_dir: "{{ role_path }}/files/toolchain"

- name: Download Kubernetes, and use your own kubelet
  ballast.kube.kubernetes_binaries:
    version: 1.37.1
    families:
      - name: kubernetes
        source: release
    components:
      - name: kubelet
        source: path
        path: /opt/kubelet-test

- name: Remove all built binaries
  ballast.kube.kubernetes_binaries:
    state: absent
"""

RETURN = r"""
bin_dir:
  description:
    - Directory with a link to each binary. Its name changes exactly when a binary changes, which is when a service that refers to it needs a restart.
    - Empty with O(state=absent).
  returned: success
  type: str
  sample: /var/cache/ballast/binaries/sets/0b5f50348907
versions:
  description: Requested version of each family, without families from source V(path).
  returned: success
  type: dict
  sample: {kubernetes: 1.37.1, etcd: 3.7.3}
components:
  description: Each binary by name.
  returned: success
  type: dict
  contains:
    family:
      description: The family it belongs to.
      type: str
    source:
      description: V(go), V(release) or V(path).
      type: str
    path:
      description: The file to which the link in RV(bin_dir) points.
      type: str
    present:
      description: Whether it exists.
      type: bool
    version:
      description: The version that the binary reports; the requested one if it does not exist.
      type: str
    sha256:
      description: SHA-256 of the file, recorded when it was created. Empty if it does not exist.
      type: str
    size:
      description: Size of the file, in bytes.
      type: int
    seconds:
      description: Seconds to build or download it.
      type: float
steps:
  description: What was done, or in check mode would be done, in order.
  returned: success
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
  returned: success
  type: list
  elements: dict
seconds:
  description: Time spent, by stage.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._binaries.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._binaries.request import BinariesRequest
from ansible_collections.ballast.kube.plugins.module_utils._binaries.spec import MAKE
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature


def main():
    run(Feature(name="binaries", spec=MAKE, desired=BinariesRequest.from_params, engine=ENGINE, needs_root=False))


if __name__ == "__main__":
    main()
