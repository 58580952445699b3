#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_binaries_info
short_description: List the binaries of Kubernetes, etcd, containerd and CNI in the cache, and check that they are intact
version_added: 0.1.0
description:
  - Says where the programs lie, or would lie, that M(ballast.kube.kubernetes_binaries) provides for the same options, and compares each
    with the SHA-256 that was recorded when it was made.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._binaries
seealso:
  - module: ballast.kube.kubernetes_binaries
"""

EXAMPLES = r"""
- name: See which programs there are
  ballast.kube.kubernetes_binaries_info:
    toolchain_dir: "{{ role_path }}/files/toolchain"
"""

RETURN = r"""
bin_dir:
  description:
    - Directory with a link to each program. Its name changes exactly when one of the programs does, so a service that refers to it needs a
      restart exactly then.
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
damaged:
  description: Programs that are not what was made, each with the SHA-256 recorded and found.
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
