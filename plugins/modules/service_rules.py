#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_rules
short_description: Program a node's kernel with the rules of a cluster's Services
version_added: 1.0.0
description:
  - Compiles a snapshot of a cluster's Services, EndpointSlices and Nodes for this node and one backend of kube-proxy. Compares the result
    with the rules in the kernel and applies the difference, with the fewest operations, in transactions where the kernel has them.
  - It acts once and watches nothing. Do not run it with the backends V(iptables) or V(ipvs) beside a kube-proxy in the same mode.
requirements:
  - on the node, for rules in the kernel, nftables for O(backend=nftables), iptables for O(backend=iptables), ipvsadm and ipset for O(backend=ipvs)
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._rules
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description: V(absent) removes everything that the backend left, and needs no snapshot.
    type: str
    default: present
    choices: [present, absent]
  backend:
    description:
      - Which rules. V(winkernel) is compiled and returned only; nothing is applied.
    type: str
    required: true
    choices: [nftables, iptables, ipvs, winkernel]
  table:
    description:
      - Name of the nftables table, in both families. The table of kube-proxy is refused.
      - So is a table that this module did not make. It knows its own by an empty chain, C(ballast-service-rules).
    type: str
    default: ballast
  priority_offset:
    description: Added to the priority of every nftables base chain. With V(-1) this table's translation comes before kube-proxy's.
    type: int
    default: 0
  hns:
    description:
      - For V(winkernel), what the node's HNS has. Keys of its pod network are C(id), C(overlay) and C(host_mac).
      - C(remote_subnets) have C(prefix) and C(provider_address), and C(endpoints) have C(address) and C(id).
      - C(load_balancers) are the existing policies as HNS shows them, so that those no longer wanted are deleted.
    type: dict
    default: {}
seealso:
  - module: ballast.kube.service_rules_info
"""

EXAMPLES = r"""
- name: Program this node
  ballast.kube.service_rules:
    backend: nftables
    snapshot_path: /root/snapshot.json
    node_name: n1
    config:
      clusterCIDR: 10.128.0.0/16

- name: Remove it
  ballast.kube.service_rules:
    state: absent
    backend: nftables
"""

RETURN = r"""
operations:
  description: How many operations, by kind. Empty when nothing is to do.
  returned: success
  type: dict
  sample: {add element: 12, delete element: 3}
duplicates:
  description: Destinations that two Services claim, with the Service that gets them and the one that does not.
  returned: success
  type: list
  elements: dict
  sample: [{destination: "10.0.0.1:80/TCP", winner: a/web, loser: b/web}]
policies:
  description: For V(winkernel), what to create in HNS and delete there, in order, each with C(operation), C(target) and C(value), as HNS takes it.
  returned: for the backend winkernel
  type: list
  elements: dict
seconds:
  description: Seconds by stage; V(compile) is the planning, the comparison included.
  returned: success
  type: dict
  sample: {parse: 0.01, observe: 0.02, compile: 0.01, apply: 0.01, verify: 0.0}
findings:
  description: Problems that do not stop the run.
  returned: success
  type: list
  elements: dict
diff:
  description: What is and what would be, for each family and kind of rules.
  returned: in diff mode
  type: list
  elements: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature
from ansible_collections.ballast.kube.plugins.module_utils._rules.engine import (
    ENGINE,
    REQUIRED_IF,
    SPEC,
    ServiceRulesRequest,
)


def main() -> None:
    run(
        Feature(
            "service_rules", spec=SPEC, desired=ServiceRulesRequest.from_params, engine=ENGINE, required_if=REQUIRED_IF
        )
    )


if __name__ == "__main__":
    main()
