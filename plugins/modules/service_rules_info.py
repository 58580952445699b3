#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_rules_info
short_description: Trace Service traffic through a node's rules, and audit them
version_added: 1.0.0
description:
  - Follows packets through the rules that this node's kernel holds, that a dump holds, or that would be compiled, ours or kube-proxy's.
  - Audits a node. Each difference between the expected rules of a snapshot and the rules found is a finding.
requirements:
  - on the node, for rules in the kernel, nftables for O(backend=nftables), iptables for O(backend=iptables), ipvsadm and ipset for O(backend=ipvs)
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._rules
options:
  backend:
    description: Which rules.
    type: str
    required: true
    choices: [nftables, iptables, ipvs]
  table:
    description: Name of the nftables table, for O(owner=ballast).
    type: str
    default: ballast
  against:
    description:
      - V(kernel) uses the kernel's rules, or the dump instead; V(compiled) uses the rules compiled from the snapshot, and reads nothing from
        this host.
      - Without O(node_ips), the node has the addresses of the dump, else, for a dump or compiled rules, those of its Node object.
    type: str
    default: kernel
    choices: [kernel, compiled]
  owner:
    description:
      - Whose rules. V(kube-proxy) knows the layouts of its releases 1.29 to 1.37, of V(nftables) those from 1.30 on. With the backends
        V(iptables) and V(ipvs) there is one layout for both owners.
    type: str
    default: ballast
    choices: [ballast, kube-proxy]
  ruleset_path:
    description:
      - A file on the node with a dump to read instead of the live kernel. For V(nftables) the output of C(nft list ruleset), with or
        without C(-j); for V(iptables) of C(iptables-save) and C(ip6tables-save); for V(ipvs) these with C(ipvsadm-save -n), C(ipset save)
        and C(ip -j address), in any order. The forms of these commands for people (C(ipvsadm -Ln), C(ipset list), C(ip address)) are read too.
      - Prompts, titles and remarks between these outputs are ignored. What the dump lacks is returned as C(missing).
    type: path
  packets:
    description: First packets of connections, each traced.
    type: list
    elements: dict
    default: []
    suboptions:
      source:
        description: Its source address.
        type: str
        required: true
      destination:
        description: Its destination address.
        type: str
        required: true
      port:
        description: Its destination port.
        type: int
        required: true
      protocol:
        description: Its protocol.
        type: str
        required: true
        choices: [TCP, UDP, SCTP]
      inbound_interface:
        description: Its inbound interface. If unset, that of the route to its source.
        type: str
        default: ''
      node_local:
        description: Whether a process in the node's own network namespace sends it.
        type: bool
        default: false
  audit_rules:
    description: Whether to look for differences between the snapshot and the rules.
    type: bool
    aliases: [audit]
    default: false
seealso:
  - module: ballast.kube.service_rules
"""

EXAMPLES = r"""
- name: Trace a packet from a pod to the API
  ballast.kube.service_rules_info:
    backend: nftables
    owner: kube-proxy
    packets:
      - source: 10.128.1.7
        destination: 10.96.0.1
        port: 443
        protocol: TCP

- name: Audit this node
  ballast.kube.service_rules_info:
    backend: nftables
    owner: kube-proxy
    snapshot_path: /root/snapshot.json
    node_name: n1
    audit_rules: true
"""

RETURN = r"""
packets:
  description:
    - What happens to each packet, in the order in which they were given. C(verdict) is V(dnat), V(reject), V(drop) or V(pass).
      It is V(either) where the order of chains at equal priority decides, which neither a dump nor C(nft list) shows; then C(ways) has
      the different answers. It is V(unknown) for a packet that cannot be traced; then C(problem) names the construct and its rule.
    - C(endpoints) are all that the kernel may pick. C(masqueraded) says for each of them whether the node replaces the source by its own
      address, null where that is not known (C(problem) says why, and C(ways) has the answers). C(masquerade) is the value that they have
      in common, else null. C(hairpin) are those for which it does so only because the packet comes from that endpoint itself.
    - C(why) are the rules that decided.
  returned: success
  type: list
  elements: dict
  sample:
    - verdict: dnat
      endpoints: ["10.97.0.1:6443"]
      masquerade: false
      masqueraded: {"10.97.0.1:6443": false}
      hairpin: []
      affinity_seconds: 0
      ways: []
      problem: null
      why: [...]
findings:
  description: Each difference, with its id, severity (V(error) or V(warning)), service, what was expected and found, and the remedy.
  returned: success
  type: list
  elements: dict
missing:
  description:
    - The parts that the dump lacks, each with the command that saves it. What depends on such a part is not answered; a family of
      which nothing was saved is not audited. Empty for a kernel.
  returned: success
  type: list
  elements: dict
  sample: [{part: iptables table filter, remedy: iptables-save -t filter}]
warnings:
  description:
    - Feature gates and settings with an unexpected effect, and values of objects that kube-proxy ignores, each with its id.
  returned: where there are any
  type: list
  elements: str
seconds:
  description: Seconds by stage.
  returned: success
  type: dict
  sample: {parse: 0.01, trace: 0.02, audit: 0.1}
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info
from ansible_collections.ballast.kube.plugins.module_utils._audit.info import SPEC, asks_kernel, trace_and_audit


def main() -> None:
    run_info(SPEC, trace_and_audit, needs_root=asks_kernel)


if __name__ == "__main__":
    main()
