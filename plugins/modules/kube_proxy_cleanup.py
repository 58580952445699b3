#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_proxy_cleanup
short_description: Remove stale rules of kube-proxy modes that a node no longer uses
version_added: 1.0.0
description:
  - Removes what kube-proxy left behind when its mode changed, also what old releases left.
  - These are rules of iptables in both variants, tables of nftables, virtual servers of ipvs with their interface C(kube-ipvs0), sets,
    counters, kernel settings and UDP connections.
  - Keeps rules of the kubelet and other programs, and rules that may be theirs. Nothing is flushed.
  - Returns each stale object, whether it is removed or kept, and why.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  mode:
    description:
      - The mode in use, whose rules are kept. The default is the mode that kube-proxy reports. A mode that kube-proxy contradicts is refused.
      - V(ballast) if C(ballast-service-proxy) replaces kube-proxy, which O(state_dir) shows.
    type: str
    choices: [iptables, ipvs, nftables, ballast]
  metrics_address:
    description: Address where kube-proxy reports its mode, C(metricsBindAddress) in its configuration.
    type: str
    default: 127.0.0.1:10249
  cut_connections:
    description:
      - Remove virtual servers that have open connections, which cuts them, before the deadline that a change of the mode recorded
        (O(ballast.kube.kube_proxy#module:drain_seconds)). Without a recorded deadline, only this option removes them.
      - RV(connections) says how many connections are cut, in check mode too.
    type: bool
    default: false
  state_dir:
    description: The same directory as O(ballast.kube.kube_proxy#module:state_dir). The takeover table of a running mode change is kept.
    type: path
    aliases: [migration_dir]
    default: /var/lib/ballast/kube-proxy
"""

EXAMPLES = r"""
- name: List stale rules of other modes
  ballast.kube.kube_proxy_cleanup:
  check_mode: true
  register: stale

- name: Remove it
  ballast.kube.kube_proxy_cleanup:

- name: Remove virtual servers with open connections now
  ballast.kube.kube_proxy_cleanup:
    cut_connections: true

- name: Remove it on a node whose kube-proxy does not serve metrics
  ballast.kube.kube_proxy_cleanup:
    mode: nftables
"""

RETURN = r"""
mode:
  description: The mode that is in use.
  returned: success
  type: str
  sample: nftables
artefacts:
  description:
    - Stale objects. C(fate) is V(removed) or V(kept), and C(why) the reason; in check mode, the planned fate. Per-Service chains are reported
      together. For a setting, V(removed) means that it is reset.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: One of jump, chain, rules, virtual server, link, address, set, table, counter, module, setting, connection.
      type: str
    target:
      description: Which it is.
      type: str
    fate:
      description: Whether it is removed or kept.
      type: str
    why:
      description: The reason.
      type: str
  sample:
    - kind: chain
      target: iptables (legacy) IPv4 nat KUBE-SEP-* (812)
      fate: removed
      why: mode nftables does not use it
    - kind: setting
      target: net.ipv4.ip_forward = 1
      fate: kept
      why: packets between pods and other nodes need it in every mode
connections:
  description: Open connections through ipvs; in check mode, their planned fate.
  returned: success
  type: dict
  contains:
    cut:
      description: How many end with their virtual servers, which are removed.
      type: int
    kept:
      description: How many continue through kept virtual servers.
      type: int
    until:
      description: Time after which a cleanup removes those, in UTC; empty without a deadline.
      type: str
  sample: {cut: 0, kept: 16, until: "2026-11-27T14:05:00Z"}
seconds:
  description: Seconds by stage.
  returned: success
  type: dict
  sample: {observe: 0.1, plan: 0.0, apply: 0.2, verify: 0.1}
findings:
  description: Objects that reappeared after the removal. The module fails if there are any.
  returned: always
  type: list
  elements: dict
diff:
  description: Removed objects, and settings before and after.
  returned: in diff mode
  type: list
  elements: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.engine import (
    ENGINE,
    SPEC,
    CleanupRequest,
)


def main() -> None:
    run(Feature("kube_proxy_cleanup", spec=SPEC, desired=CleanupRequest.from_params, engine=ENGINE))


if __name__ == "__main__":
    main()
