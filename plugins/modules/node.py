#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node
short_description: Configure kube-proxy, image pulls and the pull proxy of a node in one task
version_added: 1.0.0
description:
  - Does what M(ballast.kube.image_pull_proxy), M(ballast.kube.image_pulls) and M(ballast.kube.kube_proxy) do, each with the same options, in one
    task. When nothing changes, run time is dominated by the number of tasks, see C(docs/fleet.md).
  - Features are applied in this order. The pull proxy comes before the limits of image pulls, which point a kubelet to its socket. kube-proxy
    comes last, as its change may disconnect the node, and the time of O(kube_proxy.confirm_within) starts with it.
  - Removals, such as O(image_pulls.state=absent), come after creations and in reverse order, so that no kubelet points to the socket of a removed
    pull proxy.
  - An omitted feature stays unchanged.
  - Nothing starts if the options of any feature are invalid. A failing feature ends the run. Its changes are rolled back as by its own module;
    earlier features keep their changes and are returned, later ones are not touched.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._node
attributes:
  check_mode:
    support: full
    details:
      - Each feature is compared with the node's current state. O(image_pulls.host) is refused if no pull proxy exists yet, as in a separate task; set
        the limits in O(image_pull_proxy).
  diff_mode:
    support: full
  idempotent:
    support: full
notes:
  - The host caches the module's code in C(/var/cache/ballast/engines), so that it is sent only once. It is removed with the last object that this
    collection created there. See C(docs/fleet.md).
  - With O(image_pull_proxy), C(/usr/bin/python3) of the host needs Debian's packages python3-grpcio, python3-hpack, python3-prometheus-client
    and python3-yaml.
seealso:
  - module: ballast.kube.image_pull_proxy
  - module: ballast.kube.image_pulls
  - module: ballast.kube.kube_proxy
"""

EXAMPLES = r"""
- name: All settings of a node in one task
  ballast.kube.node:
    image_pull_proxy:
      max_in_flight: 4
      listeners:
        - name: kubelet
          socket: /run/ballast-pull-proxy/kubelet.sock
          runtime: /run/containerd/containerd.sock
    image_pulls:
      image_service_endpoint: /run/ballast-pull-proxy/kubelet.sock
      serialize_image_pulls: false
      registry_pull_qps: 0
      runtime:
        max_concurrent_downloads: 8
    kube_proxy:
      mode: nftables

- name: The pull proxy and what points at it away again
  ballast.kube.node:
    image_pull_proxy:
      state: absent
    image_pulls:
      state: absent
"""

RETURN = r"""
image_pull_proxy:
  description: What M(ballast.kube.image_pull_proxy) returns, and C(changed). In diff mode its differences are with those of the others.
  returned: when O(image_pull_proxy) is given and was worked on
  type: dict
  sample: {changed: false, steps: [], findings: [], seconds: {parse: 0.001, observe: 0.05, plan: 0.002, apply: 0.0, verify: 0.01}, pid: 812}
image_pulls:
  description: What M(ballast.kube.image_pulls) returns, and C(changed).
  returned: when O(image_pulls) is given and was worked on
  type: dict
kube_proxy:
  description: What M(ballast.kube.kube_proxy) returns, and C(changed).
  returned: when O(kube_proxy) is given and was worked on
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.engine_cache.start import run_kept
from ansible_collections.ballast.kube.plugins.module_utils._node.kept import MAIN


def main() -> None:
    run_kept(MAIN)


if __name__ == "__main__":
    main()
