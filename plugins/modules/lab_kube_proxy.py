#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_kube_proxy
short_description: "Internal: run kube-proxy of a lab as a DaemonSet"
version_added: 1.0.0
description:
  - Creates the objects with which a kubeadm cluster runs kube-proxy - ServiceAccount, ClusterRoleBinding, ConfigMap and DaemonSet
    C(kube-proxy) in the namespace C(kube-system).
  - An object that an earlier run created from the same definition is left unchanged, even if somebody has edited it.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.state_dir
  - ballast.kube._attributes.progress_log
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  plane_dir:
    description: State directory of the control plane.
    type: path
    required: true
  api_server:
    description: URL of the API server, which every node reaches without kube-proxy.
    type: str
    required: true
  cluster_cidr:
    description: Network of all pods of the cluster.
    type: str
    required: true
  mode:
    description: Mode of kube-proxy on all nodes.
    type: str
    default: nftables
    choices: [nftables, iptables, ipvs]
"""

EXAMPLES = r"""
- name: Before the first node joins
  ballast.kube.lab_kube_proxy:
    state_dir: /var/lib/ballast/lab/kube-proxy
    plane_dir: /var/lib/ballast/lab/plane
    api_server: https://10.97.0.1:6443
    cluster_cidr: 10.128.0.0/16
    mode: iptables
"""

RETURN = r"""
steps:
  description: What was done, or in check mode would be done, in order.
  returned: always
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
  returned: always
  type: list
  elements: dict
seconds:
  description: Time spent, by stage.
  returned: always
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature, from_options
from ansible_collections.ballast.kube.plugins.module_utils._lab.kube_proxy import ENGINE, SPEC, LabKubeProxyRequest


def main():
    run(Feature(name="kube-proxy", spec=SPEC, desired=from_options(LabKubeProxyRequest.from_params), engine=ENGINE))


if __name__ == "__main__":
    main()
