#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_network
short_description: "Internal: connect node instances to the network of their host"
version_added: 1.0.0
description:
  - Creates the bridge of node instances, enables forwarding, adds routes to the networks of other hosts, and masquerades traffic from
    the lab's networks in a separate nftables table. It also publishes ports of this host, or of its loopback address only, to a node.
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
  state:
    description: V(absent) removes everything recorded in O(state_dir).
    type: str
    default: present
    choices: [present, absent]
  lab:
    description: Name of the nftables table, after the prefix C(ballast).
    type: str
    default: lab
  bridge:
    description: Name of the bridge, 15 characters at most.
    type: str
  address:
    description:
      - Address of the bridge with prefix length, V(10.97.0.1/24), or one of each IP family separated by a comma.
      - With an IPv6 address this host forwards IPv6, and interfaces with a route from a router advertisement still accept advertisements (C(accept_ra)).
    type: str
  inside:
    description: Networks of nodes and pods. Packets from them to other networks are masqueraded. An empty list masquerades nothing.
    type: list
    elements: str
    default: []
  routes:
    description: Routes to the networks of other hosts, and networks to which this host rejects packets.
    type: list
    elements: dict
    default: []
    suboptions:
      to:
        description: The network.
        type: str
        required: true
      via:
        description: Address of the network's host. When omitted, this host rejects packets to the network.
        type: str
  publish:
    description:
      - Ports of this host that forward to a port of a node, from other machines and from this host through any address except loopback.
      - A port that a program listens on, or that another O(lab) publishes, is refused. The host's firewall filters these packets like all forwarded packets.
    type: list
    elements: dict
    default: []
    suboptions:
      port:
        description: The port of this host.
        type: int
        required: true
      protocol:
        description: Protocol of the port.
        type: str
        default: tcp
        choices: [tcp, udp]
      address:
        description: The node.
        type: str
        required: true
      to_port:
        description: The port of the node, as the node port of a Service.
        type: int
        required: true
  node_ports:
    description:
      - A range of ports of C(127.0.0.1) on this host that forward to the same ports of a node, for programs on this host.
      - A port that a program listens on is not forwarded. Packets with a loopback address that arrive through O(bridge) are dropped.
    type: dict
    suboptions:
      address:
        description: The node, by its IPv4 address.
        type: str
        required: true
      ports:
        description: The range, V(30000-32767).
        type: str
        required: true
seealso:
  - module: ballast.kube.kubelet_instance
"""

EXAMPLES = r"""
- name: A bridge for node instances
  ballast.kube.instance_network:
    state_dir: /var/lib/ballast/lab/network
    bridge: ballast-lab
    address: 10.97.0.1/24
    inside: [10.97.0.0/24, 10.128.0.0/16]
    routes:
      - to: 10.128.3.0/24
        via: 10.97.0.201
    publish:
      - port: 8080
        address: 10.97.0.11
        to_port: 30080
    node_ports:
      address: 10.97.0.11
      ports: 30000-32767
"""

RETURN = r"""
bridge:
  description: The bridge.
  returned: success
  type: str
address:
  description: Its address.
  returned: success
  type: str
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
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature
from ansible_collections.ballast.kube.plugins.module_utils._instance.hostnet import (
    ENGINE,
    REQUIRED_IF,
    SPEC,
    HostNetworkRequest,
)


def main():
    run(
        Feature(
            name="network", spec=SPEC, desired=HostNetworkRequest.from_params, engine=ENGINE, required_if=REQUIRED_IF
        )
    )


if __name__ == "__main__":
    main()
