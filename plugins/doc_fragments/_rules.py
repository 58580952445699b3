# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: what a snapshot is, and for which node and configuration it is read.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  snapshot:
    description:
      - A Kubernetes C(v1 List) of Services, EndpointSlices, Nodes and, if they exist, ServiceCIDRs, as
        C(kubectl get services,endpointslices,nodes -A -o json) prints it.
    type: dict
  snapshot_path:
    description: A file on the node that holds the snapshot as JSON. Better than O(snapshot) for thousands of Services.
    type: path
  node_name:
    description: Name of this node's Node object.
    type: str
  node_ips:
    description: The node's own addresses, if they are not those on this machine's interfaces.
    type: list
    elements: str
  config:
    description:
      - Keys of KubeProxyConfiguration (C(kubeproxy.config.k8s.io/v1alpha1)) with the same names, nesting and defaults, such as
        V(clusterCIDR), V(detectLocalMode), V(nodePortAddresses), V(iptables.masqueradeAll), V(ipvs.scheduler).
    type: dict
    default: {}
"""
