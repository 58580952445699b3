#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_binaries
short_description: Build, download or import the binaries of Kubernetes, etcd, containerd and CNI
version_added: 0.1.0
description:
  - Provides the programs of a Kubernetes lab or node in a cache on this machine, and a directory of links to exactly the ones asked for.
  - A program is kept by what it was made of. The version, the pinned modules, the Go toolchain and the build flags decide the directory it
    lies in, so requests for different versions live side by side, and a second run makes nothing.
  - Every program is asked for its version before it is put in place. API servers that were built run once, on loopback, and have to be
    ready and to serve their OpenAPI documents.
  - Each run compares every program with the SHA-256 that was recorded when it was made. One that differs is refused, not replaced.
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
    description: V(absent) removes everything that this module made in O(cache_dir), whatever the other options say.
    type: str
    choices: [present, absent]
    default: present
  events:
    description: File to which progress is appended, a JSON object on each line, so that a long build can be followed.
    type: path
requirements:
  - Go for source V(go), in the version that the C(go.mod) names; C(openssl) for the trial of API servers
  - curl for source V(release)
notes:
  - A build of Kubernetes takes about six minutes on two cores when nothing is cached, and 6 GiB of disk for the caches of Go.
  - C(GOPROXY), C(GOSUMDB), C(GOPRIVATE), C(GOMODCACHE), C(GOCACHE), C(GOTOOLCHAIN) and the like, and the usual variables for a proxy, are
    passed on to Go from the environment of the task. What would change the programs, such as C(GOFLAGS), is not.
  - runc is not among the programs; take it from the distribution.
seealso:
  - module: ballast.kube.kubernetes_binaries_info
"""

EXAMPLES = r"""
- name: Build everything that a lab needs
  ballast.kube.kubernetes_binaries:
    toolchain_dir: "{{ role_path }}/files/toolchain"

- name: Take Kubernetes from upstream's release, and a kubelet of our own
  ballast.kube.kubernetes_binaries:
    version: 1.37.1
    families:
      - name: kubernetes
        source: release
    components:
      - name: kubelet
        source: path
        path: /opt/kubelet-test

- name: Remove all that was built
  ballast.kube.kubernetes_binaries:
    state: absent
"""

RETURN = r"""
bin_dir:
  description:
    - Directory with a link to each program. Its name changes exactly when one of the programs does, so a service that refers to it needs a
      restart exactly then.
    - Empty with O(state=absent).
  returned: success
  type: str
  sample: /var/cache/ballast/binaries/sets/0b5f50348907
versions:
  description: Version asked for, by family. Families from source V(path) are left out.
  returned: success
  type: dict
  sample: {kubernetes: 1.37.1, etcd: 3.7.3}
components:
  description: Each program by name.
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
      description: The file itself, to which the link in RV(bin_dir) leads.
      type: str
    present:
      description: Whether it has been made.
      type: bool
    version:
      description: The version as the program says it; the one asked for while it is not made.
      type: str
    sha256:
      description: SHA-256 of the file, recorded when it was made. Empty while it is not made.
      type: str
    size:
      description: Size of the file, in bytes.
      type: int
    seconds:
      description: Time that making it took.
      type: float
steps:
  description: What was done, or in check mode would be done, in order.
  returned: success
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
