#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_proxy_info
short_description: Report a node's kube-proxy, and what blocks a change of its mode
version_added: 1.0.0
description:
  - Reports which mode is in effect, whether kube-proxy is healthy, stale rules of other modes, and recorded changes.
  - With O(mode), runs the preflight checks for a change to it. With O(audit_rules), compares the rules in the kernel with the Services.
  - With O(readiness=true) the rules are compared too, and a host without kube-proxy is not a failure; only RV(readiness) is returned.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._kube_proxy
  - ballast.kube._readiness
options:
  mode:
    description: The backend to check a change to.
    type: str
    choices: [iptables, ipvs, nftables, ballast]
  audit_rules:
    description: Compare the rules in the kernel with the Services.
    type: bool
    aliases: [audit]
    default: false
seealso:
  - module: ballast.kube.kube_proxy
"""

EXAMPLES = r"""
- name: Find what blocks nftables on this node
  ballast.kube.kube_proxy_info:
    mode: nftables
  register: node_proxy

- name: Show it
  ansible.builtin.debug:
    var: node_proxy.preflight
"""

RETURN = r"""
mode:
  description: The mode in effect; empty where kube-proxy does not respond.
  returned: success
  type: str
  sample: iptables
version:
  description: Of kube-proxy.
  returned: success
  type: str
  sample: v1.37.1
node_name:
  description: Name of this node's Node object.
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
  description: Whether kube-proxy reports itself healthy, with its rules in sync.
  returned: success
  type: bool
reason:
  description: Why it is not healthy; empty if it is.
  returned: success
  type: str
previous_mode:
  description: The mode that C(state=previous) would roll back to; null if the journal has none.
  returned: success
  type: str
armed:
  description: Whether a change waits for its confirmation.
  returned: success
  type: bool
bridged:
  description: Whether a takeover table exists.
  returned: success
  type: bool
went_back:
  description: When and why the node last rolled back automatically, C(at), C(why), C(steps); null if it did not since the last change.
  returned: success
  type: dict
draining:
  description:
    - Connections through ipvs that continue after a change to another mode, C(connections) through C(virtual_servers), which a cleanup removes
      after C(until); null if there are none.
  returned: success
  type: dict
residue:
  description: Stale rules of unused modes, each with C(kind), C(target), C(fate) (what a cleanup would do) and C(why).
  returned: success
  type: list
  elements: dict
preflight:
  description:
    - What blocks a change to O(mode), each with C(id), C(severity), C(found), C(text), C(remedy) and C(acknowledged).
  returned: success
  type: list
  elements: dict
differences:
  description: Differences between the kernel's rules and the Services, one line each. Empty without O(audit_rules) and O(readiness).
  returned: success
  type: list
  elements: str
readiness:
  description:
    - Measured production readiness of the feature, in the form that M(ballast.kube.readiness_info) reads - C(feature),
      C(answers) by name, each with C(verdict), C(text), C(how), C(remedy), C(figures), C(lines) and C(failure_modes), C(present), the
      failure modes that were found, and C(versions).
    - If failure modes explain an answer, its C(text) or C(remedy) may be empty. The report fills it in.
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
