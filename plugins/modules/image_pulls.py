#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_pulls
short_description: Limit image pulls of a node, at its kubelet, its container runtime and the host's pull proxy
version_added: 0.1.0
description:
  - Writes a drop-in for the kubelet with the keys that belong together, one for the container runtime in the table that its version has, and the
    limits of a pull proxy that is there. Restarts only what changed, proves that it is healthy and has the settings in effect, and otherwise puts
    the files of before back and restarts it with them. See C(docs/image-pulls.md).
  - The options say everything. What an earlier run set and this one leaves out goes back to what was there before the first run.
  - What is done is in a journal on the node. What fails is undone; so is what a killed run began, by the next one.
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
      - V(present) brings the node to what the options say.
      - V(absent) takes back everything that was set by this module.
    type: str
    default: present
    choices: [present, absent]
  max_parallel_image_pulls:
    description:
      - Pulls that the kubelet asks its runtime for at one time, C(maxParallelImagePulls); 1 or more. C(serializeImagePulls) is written with it, as
        the kubelet does not start where the two contradict each other.
    type: int
  serialize_image_pulls:
    description:
      - V(true) has the kubelet pull one image after the other. V(false) without O(max_parallel_image_pulls) has it pull without a limit.
    type: bool
  registry_pull_qps:
    description: Pulls that the kubelet begins in a second, C(registryPullQPS). V(0) is no limit. What is above it fails, and is tried again later.
    type: int
  registry_burst:
    description: Pulls that may begin at once above O(registry_pull_qps), C(registryBurst); 1 or more.
    type: int
  image_service_endpoint:
    description:
      - Where the kubelet asks for images, C(imageServiceEndpoint), a path or a C(unix://) URL; its socket of the pull proxy. Without it, the kubelet asks
        its container runtime.
      - The kubelet's own limits come before those of the proxy. Set O(serialize_image_pulls=false) and O(registry_pull_qps=0) with it.
    type: str
  kubeadm_patches:
    description:
      - The directory of this node's patches for kubeadm, as its flag C(--patches) takes it. It is made where it is absent.
      - With it, the kubelet's limits are a patch in that directory, and C(kubeadm upgrade node phase kubelet-config) writes them into
        C(/var/lib/kubelet/config.yaml). Without it, they are a drop-in in the directory of C(--config-dir).
      - A node whose file kubeadm would change in anything else is refused. Give every later C(kubeadm upgrade) the same C(--patches).
      - It takes kubeadm 1.35 or newer.
    type: path
  runtime:
    description: Limits of the container runtime. Those that its version does not have are refused.
    type: dict
    suboptions:
      max_concurrent_downloads:
        description:
          - Layers that containerd downloads at one time, of each image before containerd 2.1, of all images from 2.1 on; 1 or more.
        type: int
      max_concurrent_unpacks:
        description: Layers that containerd 2.2 or newer unpacks at one time; 1 or more.
        type: int
      concurrent_layer_fetch_buffer:
        description: Bytes of the parts in which containerd 2.1 or newer downloads a layer, several at one time.
        type: int
      separate_pull_cgroup:
        description: The slice that CRI-O pulls in, or V(pod) for that of the pod.
        type: str
  host:
    description:
      - Limits of the pull proxy of this host, which M(ballast.kube.image_pull_proxy) installs. It takes them without dropping a pull.
      - Give the limits in one place, here or there, as each of the two sets what it is told.
    type: dict
    suboptions:
      max_in_flight:
        description: Pulls of all kubelets of this host that are in flight at one time. V(0) is no limit.
        type: int
      on_full:
        description: What a pull above the limit does. V(block) waits in a queue, V(retry) tries again and then fails.
        type: str
        choices: [block, retry]
      retry:
        description: For O(host.on_full=retry).
        type: dict
        suboptions:
          attempts:
            description: How often it tries again.
            type: int
          interval:
            description: How long it waits before each, such as C(10s).
            type: str
      join:
        description: Whether a pull of an image that is being pulled joins that pull.
        type: bool
      present:
        description: Whether a pull of an image that is there is passed on to the runtime, or succeeds at once.
        type: str
        choices: [pass, succeed]
      order:
        description: Who is next when a pull has ended.
        type: str
        choices: [fifo, priority]
  ready_seconds:
    description: How long a service may take until it is healthy after its start.
    type: int
    default: 120
seealso:
  - module: ballast.kube.image_pulls_info
  - module: ballast.kube.image_pull_proxy
  - module: ballast.kube.node
"""

EXAMPLES = r"""
- name: Five pulls at one time, eight layers over all of them
  ballast.kube.image_pulls:
    max_parallel_image_pulls: 5
    runtime:
      max_concurrent_downloads: 8
    kubeconfig: /etc/kubernetes/admin.conf

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
    kubeconfig: /etc/kubernetes/admin.conf

- name: Take all of it back
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
  description: What was done, or in check mode would be, in order.
  returned: success
  type: list
  elements: dict
  sample:
    - kind: kubelet-drop-in
      verb: make
      title: the kubelet's drop-in /etc/kubernetes/kubelet.conf.d/90-ballast-image-pulls.conf
      target: /etc/kubernetes/kubelet.conf.d/90-ballast-image-pulls.conf
findings:
  description: What is not as it should be and does not stop the run.
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
