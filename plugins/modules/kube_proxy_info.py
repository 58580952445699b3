#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_proxy_info
short_description: Report a node's kube-proxy, and what blocks a change of its mode
version_added: 0.1.0
description:
  - Says which mode is in effect, whether kube-proxy is in order, what other modes have left on the node, and what is recorded of changes.
  - With O(mode), runs the checks before a change to it. With O(audit_rules), compares the rules in the kernel with what the Services mean.
  - With O(readiness=true) the rules are compared too, and a host without kube-proxy is no failure; RV(readiness) is then all that is returned.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._kube_proxy
  - ballast.kube._readiness
options:
  mode:
    description: The backend that a change would be to.
    type: str
    choices: [iptables, ipvs, nftables, ballast]
  audit_rules:
    description: Compare the rules in the kernel with what the Services mean.
    type: bool
    aliases: [audit]
    default: false
seealso:
  - module: ballast.kube.kube_proxy
"""

EXAMPLES = r"""
- name: What stands against nftables on this node
  ballast.kube.kube_proxy_info:
    mode: nftables
  register: node_proxy

- name: Show it
  ansible.builtin.debug:
    var: node_proxy.preflight
"""

RETURN = r"""
mode:
  description: The mode in effect; empty where kube-proxy does not answer.
  returned: success
  type: str
  sample: iptables
version:
  description: Of kube-proxy.
  returned: success
  type: str
  sample: v1.37.1
node_name:
  description: As which this node is known.
  returned: success
  type: str
  sample: n1
deployment:
  description: How kube-proxy runs on this node, V(service) or V(daemonset).
  returned: success
  type: str
  sample: daemonset
service:
  description: The systemd unit, or the directory of the runit service, that runs it; empty with V(daemonset).
  returned: success
  type: str
  sample: kube-proxy
config_path:
  description: The file of KubeProxyConfiguration that it reads; with V(daemonset) in its pod.
  returned: success
  type: str
  sample: /var/lib/kube-proxy/config.conf
in_order:
  description: Whether kube-proxy says that its rules are in sync.
  returned: success
  type: bool
reason:
  description: Why it is not in order; empty where it is.
  returned: success
  type: str
previous_mode:
  description: What C(state=previous) would go back to; null where nothing is recorded.
  returned: success
  type: str
armed:
  description: Whether a change waits for its confirmation.
  returned: success
  type: bool
bridged:
  description: Whether a takeover table is there.
  returned: success
  type: bool
went_back:
  description: When and why the node last went back by itself, C(at), C(why), C(steps); null where it did not since the last change.
  returned: success
  type: dict
draining:
  description:
    - Connections through ipvs that go on after a change to another mode, C(connections) through C(virtual_servers), which a clean-up removes from
      C(until) on; null where there are none.
  returned: success
  type: dict
residue:
  description: What modes that are not in use have left, each with C(kind), C(target), C(fate) (what a clean-up would do) and C(why).
  returned: success
  type: list
  elements: dict
preflight:
  description:
    - What stands against a change to O(mode), each with C(id), C(severity), C(found), C(text), C(remedy) and C(acknowledged).
  returned: success
  type: list
  elements: dict
differences:
  description: Where rules in the kernel are not what the Services mean, a line each. Empty without O(audit_rules) and O(readiness).
  returned: success
  type: list
  elements: str
readiness:
  description:
    - What was measured of the feature's production readiness, as the report of M(ballast.kube.readiness_info) takes it - C(feature),
      C(answers) by name, each with C(verdict), C(text), C(how), C(remedy), C(figures), C(lines) and C(failure_modes), C(present), the
      failure modes that were found, and C(versions).
    - Where failure modes explain an answer, its C(text) or C(remedy) may be empty. The report fills it in.
  returned: O(readiness=true)
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.info import read
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.request import INFO_SPEC


def main() -> None:
    run_info(INFO_SPEC, read)


if __name__ == "__main__":
    main()
