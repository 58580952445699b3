#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_proxy_change
short_description: Switch a node's kube-proxy mode, confirm the change over a new connection and audit the node
version_added: 0.1.0
description:
  - Runs M(ballast.kube.kube_proxy), resets the connection, confirms the change over a new one, compares the node's rules with the Services as
    M(ballast.kube.kube_proxy_info) does, and returns one result.
  - The time of O(confirm_within) is each node's own. It does not wait for other nodes of a play, whatever its strategy, forks and batch size.
  - A node that was confirmed and then does not pass is taken back by the same task. A node that cannot be reached again goes back by its own watchdog.
  - A lost connection does not end the task. It reconnects until the node has answered, or until O(confirm_within) and one further minute are over.
  - The task fails unless the node is in the wanted mode, confirmed, and passes the audit.
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
      - V(present) brings kube-proxy to O(mode) and O(config).
      - V(previous) goes back to what was there before the last change. It needs no confirmation.
    type: str
    default: present
    choices: [present, previous]
  mode:
    description:
      - The backend. Required for O(state=present), as what is not said changes with the release of kube-proxy.
      - V(ballast) stops kube-proxy, holds it, and runs C(ballast-service-proxy) in its place, with kube-proxy's configuration and O(config).
        Only where a service of systemd or runit runs kube-proxy. See C(docs/kube-proxy-backends.md).
    type: str
    choices: [iptables, ipvs, nftables, ballast]
  confirm_within:
    description: Seconds after the change, at least 1. The node goes back automatically unless the change is confirmed by then.
    type: int
    default: 120
notes:
  - It runs on the machine of Ansible, and the modules on the node. Over ssh it sets C(ServerAliveInterval) where C(ssh_args), C(ssh_common_args) and
    C(ssh_extra_args) do not, so that a machine that has gone is noticed after a minute.
  - With the keyword C(timeout) of the task, that time counts for all calls together.
seealso:
  - module: ballast.kube.kube_proxy
  - module: ballast.kube.kube_proxy_info
"""

EXAMPLES = r"""
- name: Move this node to nftables, or back where it fails
  ballast.kube.kube_proxy_change:
    mode: nftables

- name: Go back to what was there before
  ballast.kube.kube_proxy_change:
    state: previous
"""

RETURN = r"""
outcome:
  description:
    - V(confirmed), the node is in the wanted mode, was reached over a new connection, and passed the audit.
    - V(unchanged), it was so before. In check mode always.
    - V(went_back), it is in its former mode again, which was read; by this task, or by its watchdog.
    - V(failed), anything else. RV(reasons) say what is known - the change was refused or undone by M(ballast.kube.kube_proxy), or the node is
      not reached, and then in how many seconds its watchdog takes it back.
  returned: always
  type: str
  sample: confirmed
reasons:
  description: What went wrong, a line each, in order.
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
  description: What O(state=previous) goes back to; null where nothing is recorded.
  returned: always
  type: str
  sample: iptables
node_name:
  description: As which this node is known; empty where it was never read.
  returned: always
  type: str
  sample: n1
confirmed:
  description: Whether the node is as was asked for and nothing waits for a confirmation.
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
  description: When the task began, in seconds since the epoch, by the clock of Ansible's machine.
  returned: always
  type: float
  sample: 1795698000.1
seconds:
  description: How long it took.
  returned: always
  type: float
  sample: 97.3
steps:
  description: What the change did, or in check mode would do, in order. Empty where the connection was lost during the change.
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
