#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_proxy_change
short_description: Switch a node's kube-proxy mode, confirm the change over a new connection and audit the node
version_added: 1.0.0
description:
  - Runs M(ballast.kube.kube_proxy), resets the connection, confirms the change over a new one, compares the node's rules with the Services as
    M(ballast.kube.kube_proxy_info) does, and returns one result.
  - The time of O(confirm_within) is each node's own. It does not wait for other nodes of a play, whatever its strategy, forks and batch size.
  - If a confirmed node fails the audit, the same task rolls it back. If a node stays unreachable, its own watchdog rolls it back.
  - A lost connection does not end the task. It reconnects until the node has answered, or until O(confirm_within) and one further minute are over.
  - The task fails unless the node is in the requested mode, confirmed, and passes the audit.
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
    details:
      - Without a diff where the connection was lost during the change.
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) sets O(mode) and O(config).
      - V(previous) rolls back to the state before the last change. It needs no confirmation.
    type: str
    default: present
    choices: [present, previous]
  mode:
    description:
      - The backend. Required for O(state=present), because kube-proxy's default depends on its release.
      - V(ballast) stops kube-proxy, keeps it stopped, and runs C(ballast-service-proxy) instead, with kube-proxy's configuration and O(config).
        This requires that a systemd or runit service runs kube-proxy. See C(docs/kube-proxy-backends.md).
    type: str
    choices: [iptables, ipvs, nftables, ballast]
  confirm_within:
    description: Seconds after the change, at least 1. The node rolls back automatically unless the change is confirmed by then.
    type: int
    default: 120
notes:
  - It runs on the Ansible control node, and its modules on the managed node. Over ssh it sets C(ServerAliveInterval) where C(ssh_args),
    C(ssh_common_args) and
    C(ssh_extra_args) do not, so that a lost machine is noticed after a minute.
  - With the keyword C(timeout) of the task, that time counts for all calls together.
requirements:
  - on the node, Linux 5.13 and nftables 1.0.1 or later for V(nftables) and V(ballast), and nftables for every change
  - where kube-proxy runs as a service, iptables for V(iptables) and V(ipvs), and ipset for V(ipvs)
seealso:
  - module: ballast.kube.kube_proxy
  - module: ballast.kube.kube_proxy_info
"""

EXAMPLES = r"""
- name: Move this node to nftables, and roll back on failure
  ballast.kube.kube_proxy_change:
    mode: nftables

- name: Roll back to the state before
  ballast.kube.kube_proxy_change:
    state: previous
"""

RETURN = r"""
outcome:
  description:
    - V(confirmed), the node is in the requested mode, was reached over a new connection, and passed the audit.
    - V(unchanged), it already was. Always in check mode.
    - V(went_back), this task or the node's watchdog rolled it back to its former mode, which was verified.
    - V(failed), anything else. RV(reasons) has the details - M(ballast.kube.kube_proxy) refused or undid the change, or the node is
      unreachable, and then in how many seconds its watchdog rolls it back.
  returned: always
  type: str
  sample: confirmed
reasons:
  description: Problems in order, one line each.
  returned: always
  type: list
  elements: str
  sample: []
mode:
  description: The mode in effect when the node was last read; empty where it was never read.
  returned: always
  type: str
  sample: nftables
previous_mode:
  description: The mode that O(state=previous) rolls back to; null if the journal has none.
  returned: always
  type: str
  sample: iptables
node_name:
  description: Name of this node's Node object; empty if it was never read.
  returned: always
  type: str
  sample: n1
confirmed:
  description: Whether the node has the requested state and no change waits for confirmation.
  returned: always
  type: bool
in_order:
  description: Whether kube-proxy reports that its rules are in sync; null where the node was not audited.
  returned: always
  type: bool
differences:
  description: Where rules in the kernel differ from the Services, a line each.
  returned: always
  type: list
  elements: str
began:
  description: When the task started, in seconds since the epoch, by the control node's clock.
  returned: always
  type: float
  sample: 1795698000.1
seconds:
  description: How long it took.
  returned: always
  type: float
  sample: 97.3
steps:
  description: Completed steps of the change in order; in check mode, planned steps. Empty if the connection was lost during the change.
  returned: always
  type: list
  elements: dict
  sample: [{kind: kube-proxy, verb: change, title: kube-proxy in mode nftables, target: /var/lib/kube-proxy/config.conf}]
findings:
  description: Warnings of the change.
  returned: when the change was answered
  type: list
  elements: dict
id:
  description: Of the last of RV(reasons), see C(docs/reference/errors-core.md).
  returned: failure
  type: str
  sample: migrate-judgement
"""
