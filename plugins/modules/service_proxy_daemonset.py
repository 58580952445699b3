#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_proxy_daemonset
short_description: Run the service proxy on nodes as a DaemonSet
version_added: 1.0.0
description:
  - Creates a DaemonSet C(ballast-service-proxy) in the namespace C(kube-system), its ConfigMap, and a ServiceAccount with its rights, and waits until
    a pod is ready on each node. See C(docs/service-proxy.md).
  - It runs where an administrator's kubeconfig is, and changes no node itself. On nodes without a DaemonSet use M(ballast.kube.service_proxy).
  - The program starts as root in its container, with C(NET_ADMIN), C(SETUID) and C(SETGID), and switches to its own user with only
    C(NET_ADMIN).
  - An update goes from node to node, and continues when a node's rules are active. Rules stay active while a pod restarts.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._connection
  - ballast.kube._attributes.progress_log
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description: With V(absent), pods remove the rules of their nodes, then all objects are removed.
    type: str
    default: present
    choices: [present, absent]
  server:
    description:
      - Address of the API server, C(https://HOST:PORT), which every node reaches without a Service, as in the kubeconfig of a kubelet. Required for
        O(state=present).
    type: str
  image:
    description:
      - Image of the pods, which M(ballast.kube.image_archive) creates as C(service-proxy). Nodes have it, or pull it from a registry.
      - Use a new tag for each build, as pods do not change while the name is the same.
    type: str
    default: ballast.local/service-proxy:1
  config:
    description:
      - A KubeProxyConfiguration with the names and nesting of C(kubeproxy.config.k8s.io/v1alpha1), without C(apiVersion) and C(kind), for all nodes.
        C(clientConnection.kubeconfig) and C(hostnameOverride) are not allowed in it.
      - A change restarts the pods, node by node.
    type: dict
    default: {}
  service_proxy_name:
    description:
      - Serve the Services with this value of the label C(service.kubernetes.io/service-proxy-name), which kube-proxy ignores.
      - Empty for those without the label, on nodes where kube-proxy does not run.
    type: str
    default: ""
  node_selector:
    description: Labels of the nodes that get a pod. Empty for all Linux nodes.
    type: dict
    default: {}
notes:
  - The kubeconfig's user may change DaemonSets, ConfigMaps and ServiceAccounts in C(kube-system), ClusterRoles and their bindings, and has
    itself what the ClusterRole gives.
seealso:
  - module: ballast.kube.service_proxy
  - module: ballast.kube.image_archive
"""

EXAMPLES = r"""
- name: Build the image, for nodes that import it
  ballast.kube.image_archive:
    path: /var/cache/ballast/images/service-proxy.tar
    images: [service-proxy]

- name: Serve the Services that have the label, beside kube-proxy
  ballast.kube.service_proxy_daemonset:
    kubeconfig: /etc/kubernetes/admin.conf
    server: https://10.0.0.10:6443
    service_proxy_name: ballast
    config:
      clusterCIDR: 10.244.0.0/16
      healthzBindAddress: 0.0.0.0:10356
      metricsBindAddress: 127.0.0.1:10349
  delegate_to: localhost
  run_once: true

- name: Remove it, with its rules on all nodes
  ballast.kube.service_proxy_daemonset:
    kubeconfig: /etc/kubernetes/admin.conf
    state: absent
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
steps:
  description: Completed steps in order; in check mode, planned steps.
  returned: success
  type: list
  elements: dict
  sample: [{kind: DaemonSet, verb: make, title: DaemonSet ballast-service-proxy, target:
    /apis/apps/v1/namespaces/kube-system/daemonsets/ballast-service-proxy}]
findings:
  description: Problems that do not stop the run, such as settings without effect.
  returned: success
  type: list
  elements: dict
seconds:
  description: Time spent, by stage.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature, from_options
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.daemonset.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.daemonset.request import (
    REQUIRED_IF,
    SPEC,
    DaemonSetRequest,
)


def main() -> None:
    run(
        Feature(
            "service-proxy-daemonset",
            spec=SPEC,
            desired=from_options(DaemonSetRequest.from_params),
            engine=ENGINE,
            required_if=REQUIRED_IF,
            needs_root=False,
        )
    )


if __name__ == "__main__":
    main()
