# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: where a node's kubelet, container runtime and pull proxy are found.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
attributes:
  action_group:
    description: Use C(group/ballast.kube.image_pulls) in C(module_defaults) to set the options that these modules share once.
    support: full
    membership:
      - ballast.kube.image_pulls
      - ballast.kube.image_pulls_info
options:
  kubelet_service:
    description:
      - The systemd unit, or the directory of the runit service, that runs the kubelet.
      - With the default, the module recognizes a kubelet that a distribution runs and configures itself (k3s, RKE2, k0s, MicroK8s and others).
        It changes
        nothing there, and the error explains how to configure that distribution.
    type: str
    default: kubelet
  kubeconfig:
    description:
      - Path of a kubeconfig on the node, whose user may get C(nodes/configz) and C(nodes/metrics); of a kubelet before Kubernetes 1.33
        C(nodes/proxy). The module uses it to read
        the kubelet's effective configuration from C(/configz). It needs a client certificate or a token.
      - Without it, the module checks the kubelet's health and its configuration files, and a finding reports this.
    type: path
  context:
    description: The context of O(kubeconfig). The default is its current one.
    type: str
  node_name:
    description: The name of this Node. The default is the name that the kubelet uses.
    type: str
  container_runtime:
    description:
      - Which container runtime the kubelet uses. V(auto) is the one that O(runtime_service) runs. Without it, it is the one that listens on the
        endpoint
        that the kubelet's own configuration names; before the kubelet runs, the one of the units C(containerd) and C(crio) that runs.
    type: str
    default: auto
    choices: [auto, containerd, crio]
  runtime_service:
    description:
      - The systemd unit, or the directory of the runit service, that runs the container runtime.
      - The default is the service of the process that listens on the kubelet's runtime endpoint.
    type: str
  runtime_config:
    description:
      - The configuration file of containerd. The default is the one that it is started with.
    type: path
  pull_proxy_state_dir:
    description: The O(ballast.kube.image_pull_proxy#module:state_dir) of the pull proxy.
    type: path
    aliases: [proxy_state_dir]
    default: /var/lib/ballast/pull-proxy
  state_dir:
    description:
      - Directory on the node with the journal - the state before the first change, and the steps of a running change.
      - Node instances that share a filesystem need separate directories.
    type: path
    default: /var/lib/ballast/image-pulls
"""
