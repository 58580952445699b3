# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: where a node's kubelet, container runtime and pull proxy are found.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  kubelet_service:
    description: The systemd unit, or the directory of the runit service, that runs the kubelet.
    type: str
    default: kubelet
  kubeconfig:
    description:
      - One on the node that may get C(nodes/proxy). By it, what the kubelet has in effect is read back from C(/configz).
      - Without it, the kubelet's health is checked and what it reads is compared, and a finding says so.
    type: path
  node_name:
    description: The name of this Node. The default is the one that the kubelet goes by.
    type: str
  container_runtime:
    description:
      - Which container runtime runs here. V(auto) is the one that O(runtime_service) runs, or without it the one of the units
        C(containerd) and C(crio) that runs.
    type: str
    default: auto
    choices: [auto, containerd, crio]
  runtime_service:
    description:
      - The systemd unit, or the directory of the runit service, that runs the container runtime.
      - The default is C(containerd) or C(crio).
    type: str
  runtime_config:
    description:
      - The configuration file of containerd. The default is the one that it is started with.
    type: path
  proxy_state_dir:
    description: The O(ballast.kube.image_pull_proxy#module:state_dir) of the pull proxy.
    type: path
    default: /var/lib/ballast/pull-proxy
  state_dir:
    description:
      - Directory on the node that holds the record of what was there before, and the journal of a change that is under way.
      - Node instances that share a filesystem need one each.
    type: path
    default: /var/lib/ballast/image-pulls
"""
