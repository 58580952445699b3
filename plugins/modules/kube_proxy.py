#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_proxy
short_description: Switch a node's kube-proxy mode, with rollback
version_added: 1.0.0
description:
  - Sets the mode of this node's kube-proxy explicitly, and other keys of its configuration. During a change of the mode, a takeover table serves the
    Services, with temporary rules that run before kube-proxy's and follow the API, until kube-proxy's new rules are verified. See
    C(docs/kube-proxy-backends.md).
  - A journal on the node records every step. A failed change is rolled back. If a run is killed, the next run or the watchdog rolls it back.
    The watchdog is a small service that runs on the node during a change.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._kube_proxy
  - ballast.kube._kube_proxy.change
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) sets O(mode) and O(config).
      - V(confirmed) keeps a change that was made with O(confirm_within).
      - V(previous) rolls back to the state before the last change.
    type: str
    default: present
    choices: [present, confirmed, previous]
  mode:
    description:
      - The backend. Required for O(state=present), because kube-proxy's default depends on its release.
      - V(ballast) stops kube-proxy, keeps it stopped, and runs C(ballast-service-proxy) instead, with kube-proxy's configuration and O(config).
        This requires that a systemd or runit service runs kube-proxy. See C(docs/kube-proxy-backends.md).
    type: str
    choices: [iptables, ipvs, nftables, ballast]
  confirm_within:
    description:
      - Seconds. The node rolls back automatically unless a task with O(state=confirmed) runs within this time, which proves that the node is
        reachable.
      - V(0) needs no confirmation.
    type: int
    default: 0
requirements:
  - on the node, Linux 5.13 and nftables 1.0.1 or later for V(nftables) and V(ballast), and nftables for every change
  - where kube-proxy runs as a service, iptables for V(iptables) and V(ipvs), and ipset for V(ipvs)
seealso:
  - module: ballast.kube.kube_proxy_change
  - module: ballast.kube.kube_proxy_info
  - module: ballast.kube.kube_proxy_cleanup
  - module: ballast.kube.node
"""

EXAMPLES = r"""
- name: Move this node to nftables, with automatic rollback if it becomes unreachable
  ballast.kube.kube_proxy:
    mode: nftables
    confirm_within: 120

- name: Reconnect
  ansible.builtin.meta: reset_connection

- name: Keep the change
  ballast.kube.kube_proxy:
    state: confirmed

- name: Replace kube-proxy with the service proxy on this node
  ballast.kube.kube_proxy:
    mode: ballast

- name: Roll back to the state before
  ballast.kube.kube_proxy:
    state: previous
"""

RETURN = r"""
mode:
  description: The mode in effect; empty where kube-proxy, or in mode V(ballast) the service proxy, does not respond.
  returned: success, not in check mode
  type: str
  sample: nftables
version:
  description: Of kube-proxy.
  returned: success, not in check mode
  type: str
  sample: v1.37.1
node_name:
  description: Name of this node's Node object.
  returned: success, not in check mode
  type: str
  sample: n1
deployment:
  description: How kube-proxy runs on this node, V(service) or V(daemonset).
  returned: success, not in check mode
  type: str
  sample: daemonset
service:
  description: The systemd unit, or the directory of the runit service, that runs it; empty with V(daemonset).
  returned: success, not in check mode
  type: str
  sample: kube-proxy
config_path:
  description: The file of KubeProxyConfiguration that it reads; with V(daemonset) in its pod.
  returned: success, not in check mode
  type: str
  sample: /var/lib/kube-proxy/config.conf
previous_mode:
  description: The mode that V(previous) rolls back to; null if the journal has none.
  returned: success, not in check mode
  type: str
  sample: iptables
armed:
  description: Whether the change waits for its confirmation.
  returned: success, not in check mode
  type: bool
bridged:
  description: Whether a takeover table exists.
  returned: success, not in check mode
  type: bool
went_back:
  description: When and why the node last rolled back automatically, C(at), C(why), C(steps); null if it did not since the last change.
  returned: success, not in check mode
  type: dict
draining:
  description: Connections through ipvs that continue after a change to another mode; null if there are none.
  returned: success, not in check mode
  type: dict
  contains:
    connections:
      description: How many are open.
      type: int
    virtual_servers:
      description: How many are kept for them.
      type: int
    until:
      description: Time after which M(ballast.kube.kube_proxy_cleanup) removes them, in UTC; empty without a deadline.
      type: str
  sample: {connections: 16, virtual_servers: 3, until: "2026-11-27T14:05:00Z"}
steps:
  description: Completed steps in order; in check mode, planned steps.
  returned: success
  type: list
  elements: dict
  sample: [{kind: kube-proxy, verb: change, title: kube-proxy in mode nftables, target: /var/lib/kube-proxy/config.conf}]
findings:
  description: Problems that do not stop the run.
  returned: success
  type: list
  elements: dict
seconds:
  description: Time spent, by stage.
  returned: success
  type: dict
change_seconds:
  description:
    - Where C(apply) of RV(seconds) goes in a change. V(synchronise) and V(restart) are kube-proxy's own, V(compare), V(probe), V(reach),
      V(takeover_table) and V(takeover_table_removed) come from this module, and so does V(remove_rules), of kube-proxy, in a change to
      mode V(ballast). Empty where nothing changed.
  returned: success, not in check mode
  type: dict
  sample: {takeover_table: 2.1, probe: 0.6, restart: 1.2, synchronise: 57.0, compare: 6.3, reach: 0.4, takeover_table_removed: 0.2}
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.feature import FEATURE


def main() -> None:
    run(FEATURE)


if __name__ == "__main__":
    main()
