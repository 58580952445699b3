#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_proxy_daemonset
short_description: Split kube-proxy's DaemonSet by mode, so that nodes switch mode one by one
version_added: 0.1.0
description:
  - A cluster of kubeadm has one ConfigMap and one DaemonSet of kube-proxy for all nodes. This module makes a second of each, for another
    mode, to which a node belongs by its label C(ballast.kube/kube-proxy-mode), and in the end makes one of each of them again.
  - It runs where a kubeconfig of an administrator is, and changes no node. M(ballast.kube.kube_proxy) moves a node, by its label.
  - No pod of kube-proxy restarts on a node that is not moved. While there are canaries the original DaemonSet has the
    update strategy V(OnDelete) and a node affinity; an annotation keeps what both were before.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._connection
  - ballast.kube._attributes.events
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
      - Further changes of KubeProxyConfiguration for that mode, merged into what is there. A null removes a key.
      - With O(state=final), what the canaries have becomes that of all nodes, whatever is given here.
    type: dict
    default: {}
  state:
    description:
      - V(canary) makes a ConfigMap and a DaemonSet NAME-MODE, copied from the original, for nodes with the label of O(mode), and has the
        original leave such nodes to it. Nothing is made where all nodes are of O(mode) already.
      - V(final) makes O(mode) that of all nodes. It is refused while a node is left that does not have the label. The original gets the
        configuration, and takes over node by node, as many at a time as C(maxUnavailable) of its update strategy says; each pod of kube-proxy is
        started once. Then the second ConfigMap and DaemonSet, the affinity and the annotation are gone. The label stays on the nodes, where it
        says what they were moved to.
      - V(absent) removes what V(canary) has made. It is refused while a node still has the label and runs in O(mode).
    type: str
    default: canary
    choices: [canary, final, absent]
notes:
  - The client of the kubeconfig may change DaemonSets, ConfigMaps and pods of O(namespace), and labels of nodes.
  - The pods of the second DaemonSet have other values in those labels that the original selects its pods by, C(k8s-app=kube-proxy-nftables) for
    C(k8s-app=kube-proxy).
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
  description: Modes that have canaries.
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
  description: What was done, or in check mode would be done, in order.
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
      description: The thing, in words.
      type: str
    target:
      description: Path of the object in the API, or name of the node.
      type: str
findings:
  description: What was found wrong afterwards, among it that somebody else changed the same objects meanwhile.
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
