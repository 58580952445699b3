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
      - Keys of KubeProxyConfiguration, merged into the existing ones. A null value removes a key. Use O(mode) for the mode.
      - With O(mode=ballast) they are merged into the copy of kube-proxy's configuration that C(ballast-service-proxy) gets; kube-proxy's file stays
        unchanged. Keys that a later run omits return to that file's values.
      - With O(deployment=daemonset) the configuration belongs to the ConfigMap, see M(ballast.kube.kube_proxy_daemonset); the preflight
        checks use the keys given here.
    type: dict
    default: {}
  deployment:
    description:
      - How kube-proxy runs on the node. V(auto) detects it from the cgroup and supervisor of the process, and the result names it.
      - V(service) is supervised by systemd or runit and reads a file of the node.
      - V(daemonset) runs in pods, one DaemonSet per mode, which the node selects with its label C(ballast.kube/kube-proxy-mode).
      - A kube-proxy that another tool manages (k3s, RKE2, EKS and others) is refused before any change. The error names the tool's own
        way. C(docs/reference/kube-proxy-backends.md) lists them.
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
      - Path of a kubeconfig on the node, whose user may list and watch Services, EndpointSlices and Nodes.
      - The default is kube-proxy's own, C(clientConnection.kubeconfig) of its configuration.
    type: path
  context:
    description: The context of O(kubeconfig). The default is its current one.
    type: str
  node_name:
    description: The name of this Node. The default is the name that kube-proxy uses.
    type: str
  acknowledge:
    description: Ids of preflight warnings that must not block the change. Only findings of severity V(soft), the warnings, can be acknowledged;
      V(hard) ones are blockers.
    type: list
    elements: str
    default: []
  state_dir:
    description: Directory on the node with the journal - the state before the first change, and the steps of a running change.
    type: path
    default: /var/lib/ballast/kube-proxy
"""

    # How a change is made.
    CHANGE = r"""
options:
  probe_service:
    description:
      - A Service, C(NAMESPACE/NAME), whose ports and node ports are probed in addition to those of C(default/kubernetes), from the node and from
        a pod.
      - Ports that are reachable before a change must be reachable after it. UDP ports get a DNS query.
    type: str
    default: ""
  drain_seconds:
    description:
      - Seconds for which M(ballast.kube.kube_proxy_cleanup) keeps virtual servers with open connections, after a change from ipvs to another mode.
      - The change neither waits for connections nor cuts any. The journal on the node has the deadline.
      - The default is a day, as long as kube-proxy lets conntrack keep an idle TCP connection.
    type: int
    default: 86400
  verify_seconds:
    description:
      - Seconds that kube-proxy may take after its start until it is healthy and its rules match the Services.
      - Traffic is unaffected; the takeover table stays active. On a large cluster the first synchronisation takes minutes,
        with C(iptables-nft) and 10,000 Services up to a quarter of an hour.
    type: int
    default: 1800
"""
