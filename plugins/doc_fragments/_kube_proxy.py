# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: where a node's kube-proxy is found.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
attributes:
  action_group:
    description: Use C(group/ballast.kube.kube_proxy) in C(module_defaults) to set the options that these modules share once.
    support: full
    membership:
      - ballast.kube.kube_proxy
      - ballast.kube.kube_proxy_change
      - ballast.kube.kube_proxy_info
options:
  config:
    description:
      - Keys of KubeProxyConfiguration, merged into those that are there. A null value removes a key. The mode is an option of its own.
      - With O(mode=ballast) they are merged into what C(ballast-service-proxy) gets of kube-proxy's file, which itself stays as it is. What a later
        run leaves out is as in that file again.
      - With O(deployment=daemonset) the configuration belongs to the ConfigMap, see M(ballast.kube.kube_proxy_daemonset); the checks before
        the change go by the keys that are given here.
    type: dict
    default: {}
  deployment:
    description:
      - How kube-proxy runs on the node. V(auto) finds it by the cgroup and the supervisor of the process, and the result names it.
      - V(service) is supervised by systemd or runit and reads a file of the node.
      - V(daemonset) runs in pods, those of one DaemonSet for each mode, which the node chooses by its label C(ballast.kube/kube-proxy-mode).
      - A kube-proxy that somebody else keeps (k3s, RKE2, EKS and others) is refused before anything is changed. The error names what its owner
        has instead. C(docs/kube-proxy-backends.md) lists them.
    type: str
    default: auto
    choices: [auto, service, daemonset]
  service:
    description:
      - A systemd unit, or the directory of a runit service.
      - The default is the one in which kube-proxy runs, or C(kube-proxy) while none runs.
    type: str
  config_path:
    description:
      - The file of KubeProxyConfiguration, YAML or JSON, that kube-proxy is started with.
      - The default is C(--config) of its own arguments.
    type: path
  kubeconfig:
    description:
      - One that may list and watch Services, EndpointSlices and Nodes.
      - The default is kube-proxy's own, C(clientConnection.kubeconfig) of its configuration.
    type: path
  context:
    description: The context of O(kubeconfig). The default is its current one.
    type: str
  node_name:
    description: The name of this Node. The default is the one that kube-proxy itself goes by.
    type: str
  acknowledge:
    description: Ids of findings of the preflight that shall not stand in the way. Only those of severity V(soft) can be acknowledged.
    type: list
    elements: str
    default: []
  state_dir:
    description: Directory on the node that holds the record of what was there before, and the journal of a change that is under way.
    type: path
    default: /var/lib/ballast/kube-proxy
"""

    # How a change is made.
    CHANGE = r"""
options:
  probe_service:
    description:
      - A Service, C(NAMESPACE/NAME), whose ports and node ports are tried besides those of C(default/kubernetes), from the node and from a pod.
      - What is reached before a change must be reached after it. UDP ports are asked as DNS servers are.
    type: str
    default: ""
  drain_seconds:
    description:
      - Seconds. How long M(ballast.kube.kube_proxy_cleanup) keeps virtual servers that have open connections, after a change from ipvs to another mode.
      - The change waits for no connection and cuts none. The deadline is recorded on the node.
      - The default is a day, as long as kube-proxy lets conntrack keep an idle TCP connection.
    type: int
    default: 86400
  verify_seconds:
    description:
      - How long kube-proxy may take until it is in order after its start, and its rules are as the Services mean them.
      - Traffic is unaffected; the takeover table stays active. On a large cluster the first synchronisation takes minutes,
        with C(iptables-nft) and 10,000 Services up to a quarter of an hour.
    type: int
    default: 1800
"""
