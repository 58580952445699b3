#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_pulls
short_description: Limit image pulls of a node, at its kubelet, its container runtime and the host's pull proxy
version_added: 1.0.0
description:
  - Writes a drop-in for the kubelet, one for the container runtime in the table that its version uses, and the limits of an installed pull
    proxy. Restarts only what changed, and verifies that it is healthy and the settings are in effect. Otherwise it restores the former files and
    restarts with them. See C(docs/image-pulls.md).
  - The options are the complete desired state. Settings of an earlier run that this one omits return to their values from before the first run.
  - A journal on the node records every step. A failed change is rolled back, and the next run rolls back a killed one.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._image_pulls
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) applies the options.
      - V(absent) reverts everything that this module set.
    type: str
    default: present
    choices: [present, absent]
  max_parallel_image_pulls:
    description:
      - Maximum number of concurrent pulls of the kubelet, C(maxParallelImagePulls); 1 or more. C(serializeImagePulls) is written with it, as the
        kubelet does not start if the two contradict each other.
    type: int
  serialize_image_pulls:
    description:
      - V(true) makes the kubelet pull one image after the other. V(false) without O(max_parallel_image_pulls) removes the limit.
    type: bool
  registry_pull_qps:
    description: Pulls that the kubelet may start per second, C(registryPullQPS). V(0) means no limit. Pulls above it fail and are retried later.
    type: int
  registry_burst:
    description: Pulls that may start at once above O(registry_pull_qps), C(registryBurst); 1 or more.
    type: int
  image_service_endpoint:
    description:
      - Socket that the kubelet requests images from, C(imageServiceEndpoint), a path or a C(unix://) URL, such as its socket of the pull proxy.
        Without
        it, the kubelet uses its container runtime.
      - The kubelet's own limits apply before those of the proxy. Set O(serialize_image_pulls=false) and O(registry_pull_qps=0) with it.
    type: str
  kubeadm_patches:
    description:
      - The directory of this node's kubeadm patches, as for its flag C(--patches). It is created if it does not exist.
      - With it, the kubelet's limits are a patch in that directory, and C(kubeadm upgrade node phase kubelet-config) writes them into
        C(/var/lib/kubelet/config.yaml). Without it, they are a drop-in in the directory of C(--config-dir).
      - A node is refused if kubeadm would change anything else in that file. Pass the same C(--patches) to every later C(kubeadm upgrade).
      - It needs kubeadm 1.35 or newer.
    type: path
  runtime:
    description: Limits of the container runtime. Limits that its version lacks are refused.
    type: dict
    suboptions:
      max_concurrent_downloads:
        description:
          - Layers that containerd downloads at once, per image before containerd 2.1, for all images together from 2.1 on; 1 or more.
        type: int
      max_concurrent_unpacks:
        description: Layers that containerd 2.2 or newer unpacks at once; 1 or more.
        type: int
      concurrent_layer_fetch_buffer:
        description: Bytes per part when containerd 2.1 or newer downloads several parts of a layer at once.
        type: int
      separate_pull_cgroup:
        description: The slice that CRI-O pulls in, or V(pod) for that of the pod.
        type: str
  host:
    description:
      - Limits of the pull proxy of this host, which M(ballast.kube.image_pull_proxy) installs. It applies them without dropping a pull.
      - Set the limits in one place only, here or there, as each module overwrites the other's.
    type: dict
    suboptions:
      max_in_flight:
        description: Maximum number of pulls in flight from all kubelets of this host. V(0) means no limit.
        type: int
      on_full:
        description: Policy for a pull above the limit. V(block) queues it, V(retry) retries and then fails.
        type: str
        choices: [block, retry]
      retry:
        description: For O(host.on_full=retry).
        type: dict
        suboptions:
          attempts:
            description: Number of retries.
            type: int
          interval:
            description: How long it waits before each, such as C(10s).
            type: str
      join:
        description: Whether concurrent pulls of one image share a single pull.
        type: bool
      present:
        description: Whether a pull of a cached image is passed to the runtime or succeeds at once.
        type: str
        choices: [pass, succeed]
      order:
        description: Which pull is next when one has finished.
        type: str
        choices: [fifo, priority]
  ready_seconds:
    description: Seconds that a service may take to become healthy after its start.
    type: int
    default: 120
seealso:
  - module: ballast.kube.image_pulls_info
  - module: ballast.kube.image_pull_proxy
  - module: ballast.kube.node
"""

EXAMPLES = r"""
- name: Five pulls at once, eight layers at once over all of them
  ballast.kube.image_pulls:
    max_parallel_image_pulls: 5
    runtime:
      max_concurrent_downloads: 8
    kubeconfig: /etc/kubernetes/kubelet-reader.conf

- name: Behind the pull proxy of a host, whose limit is the one that counts
  ballast.kube.image_pulls:
    image_service_endpoint: /run/ballast-pull-proxy/kubelet.sock
    serialize_image_pulls: false
    registry_pull_qps: 0
    host:
      max_in_flight: 4

- name: On a node of kubeadm, as a patch that its upgrades keep
  ballast.kube.image_pulls:
    max_parallel_image_pulls: 5
    kubeadm_patches: /etc/kubernetes/patches
    kubeconfig: /etc/kubernetes/kubelet-reader.conf

- name: Undo everything
  ballast.kube.image_pulls:
    state: absent
"""

RETURN = r"""
kubelet:
  description:
    - C(service), C(running), C(config_dir), C(read_back) (whether the values are from C(/configz)), and C(settings), which has by key C(value) and
      C(source), a file, a flag or C(default). C(unread) says why part of it is not known.
  returned: success, not in check mode
  type: dict
runtime:
  description:
    - C(name), C(service), C(version), C(config_path), C(table), C(scope) (what C(max_concurrent_downloads) counts), C(local_pull) (why containerd
      2.1 or newer pulls without its transfer service), C(settings) and C(unread).
  returned: success, not in check mode
  type: dict
host:
  description: Of the pull proxy C(config_path), C(installed), C(running), C(settings) and C(unread).
  returned: success, not in check mode
  type: dict
steps:
  description: Completed steps in order; in check mode, planned steps.
  returned: success
  type: list
  elements: dict
  sample:
    - kind: kubelet-drop-in
      verb: make
      title: the kubelet's drop-in /etc/kubernetes/kubelet.conf.d/90-ballast-image-pulls.conf
      target: /etc/kubernetes/kubelet.conf.d/90-ballast-image-pulls.conf
findings:
  description: Problems that do not stop the run.
  returned: success
  type: list
  elements: dict
seconds:
  description: Time spent, by stage.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.feature import FEATURE


def main() -> None:
    run(FEATURE)


if __name__ == "__main__":
    main()
