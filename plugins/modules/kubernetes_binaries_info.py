#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_binaries_info
short_description: List the binaries of Kubernetes, etcd, containerd and CNI in the cache, and check that they are intact
version_added: 1.0.0
description:
  - Returns the paths of the binaries that M(ballast.kube.kubernetes_binaries) provides for the same options, and compares each binary
    with its recorded SHA-256.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._binaries
seealso:
  - module: ballast.kube.kubernetes_binaries
"""

EXAMPLES = r"""
- name: Read which binaries exist
  ballast.kube.kubernetes_binaries_info:
    toolchain_dir: "{{ role_path }}/files/toolchain"
"""

RETURN = r"""
bin_dir:
  description:
    - Directory with a link to each binary. Its name changes exactly when a binary changes, which is when a service that refers to it needs a restart.
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
damaged:
  description: Binaries that changed after they were created, each with its recorded and its actual SHA-256.
  returned: success
  type: dict
seconds:
  description: Time spent, by stage.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info, with_seconds
from ansible_collections.ballast.kube.plugins.module_utils._binaries.engine import read_damage
from ansible_collections.ballast.kube.plugins.module_utils._binaries.request import BinariesRequest
from ansible_collections.ballast.kube.plugins.module_utils._binaries.spec import READ
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context


def main():
    run_info(
        READ,
        with_seconds(lambda host, params: read_damage(Context(BinariesRequest.from_params(params, host), host))),
        needs_root=False,
    )


if __name__ == "__main__":
    main()
