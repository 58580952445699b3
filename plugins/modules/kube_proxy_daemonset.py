#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_proxy_daemonset
short_description: Split kube-proxy's DaemonSet by mode, so that nodes switch mode one by one
version_added: 1.0.0
description:
  - A kubeadm cluster has one ConfigMap and one DaemonSet of kube-proxy for all nodes. This module creates a second of each for another
    mode, which the label C(ballast.kube/kube-proxy-mode) selects per node, and finally merges them into one again.
  - It runs where an administrator's kubeconfig is, and changes no node. M(ballast.kube.kube_proxy) moves a node, by its label.
  - kube-proxy pods restart only on moved nodes. While a canary DaemonSet exists, the original has the update strategy
    V(OnDelete) and a node affinity; an annotation keeps their former values.
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
  namespace:
    description: Namespace of the DaemonSet.
    type: str
    default: kube-system
  name:
    description: Name of the DaemonSet, and of the ConfigMap that its pods mount, which has the key C(config.conf).
    type: str
    default: kube-proxy
  mode:
    description: The mode that nodes are moved to.
    type: str
    required: true
    choices: [iptables, ipvs, nftables]
  config:
    description:
      - Further changes of KubeProxyConfiguration for that mode, merged into the existing one. A null removes a key.
      - With O(state=final) this is ignored - the canary DaemonSet's configuration becomes that of all nodes.
    type: dict
    default: {}
  state:
    description:
      - V(canary) creates a ConfigMap and a DaemonSet NAME-MODE, copied from the original, for nodes with the label of O(mode), and
        excludes such nodes from the original. It creates nothing if all nodes already have O(mode).
      - V(final) makes O(mode) the mode of all nodes. It fails while a node lacks the label. The original gets the configuration and
        takes over the nodes, at most C(maxUnavailable) of its update strategy at once; each kube-proxy pod starts once. Then the second
        ConfigMap and DaemonSet, the affinity and the annotation are removed. The nodes keep the label, which records their mode.
      - V(absent) removes what V(canary) created. It fails while a node still has the label and runs in O(mode).
    type: str
    default: canary
    choices: [canary, final, absent]
notes:
  - The kubeconfig's user may change DaemonSets, ConfigMaps and pods of O(namespace), and labels of nodes.
  - Pods of the second DaemonSet have other values in the labels that the original selects pods by, for example C(k8s-app=kube-proxy-nftables)
    instead of C(k8s-app=kube-proxy).
"""

EXAMPLES = r"""
- name: Allow nodes to be moved to nftables
  ballast.kube.kube_proxy_daemonset:
    kubeconfig: /etc/kubernetes/admin.conf
    mode: nftables
  delegate_to: localhost
  run_once: true

- name: When all nodes are moved
  ballast.kube.kube_proxy_daemonset:
    kubeconfig: /etc/kubernetes/admin.conf
    mode: nftables
    state: final
  delegate_to: localhost
  run_once: true

- name: Or when all nodes are moved back
  ballast.kube.kube_proxy_daemonset:
    kubeconfig: /etc/kubernetes/admin.conf
    mode: nftables
    state: absent
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
canary:
  description: Name of the DaemonSet and the ConfigMap of O(mode), empty where there is none.
  returned: success, not in check mode
  type: str
  sample: kube-proxy-nftables
modes:
  description: Modes with a canary DaemonSet.
  returned: success, not in check mode
  type: list
  elements: str
  sample: [nftables]
nodes:
  description: Names of the nodes that have a pod of kube-proxy.
  returned: success, not in check mode
  type: dict
  contains:
    original:
      description: Of the DaemonSet O(name).
      type: list
      elements: str
    canary:
      description: Of the DaemonSet of O(mode).
      type: list
      elements: str
steps:
  description: Completed steps in order; in check mode, planned steps.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of step.
      type: str
    verb:
      description: V(make), V(change) or V(remove).
      type: str
    title:
      description: The object, in words.
      type: str
    target:
      description: Path of the object in the API, or name of the node.
      type: str
findings:
  description: Problems found afterwards, including concurrent changes of the same objects.
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
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.daemonset.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.daemonset.model import SPEC, DaemonSetRequest


def main():
    run(
        Feature(
            name="kube-proxy",
            spec=SPEC,
            desired=from_options(DaemonSetRequest.from_params),
            engine=ENGINE,
            needs_root=False,
        )
    )


if __name__ == "__main__":
    main()
