#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_proxy
short_description: Run a service proxy on a node, beside kube-proxy or instead of it
version_added: 1.0.0
description:
  - Installs and runs C(ballast-service-proxy), which follows the cluster and programs the node's Services with nftables, in its own tables.
    See C(docs/service-proxy.md).
  - With O(service_proxy_name) it serves the Services that have this value of the label C(service.kubernetes.io/service-proxy-name), which
    kube-proxy ignores. Without it, it serves the same Services as kube-proxy; stop kube-proxy on the node first, or let
    M(ballast.kube.kube_proxy) with C(mode=ballast) replace kube-proxy on a live node.
  - The running program applies changes of O(config) without a restart, except addresses, C(hostnameOverride) and the kubeconfig. Rules
    stay active during a restart.
  - The program runs as the system user C(ballast-service-proxy), which this module creates and removes, with only C(CAP_NET_ADMIN).
  - A failed change is rolled back. The module waits until the running program reports these settings.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.progress_log
  - ballast.kube._service_proxy
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description: V(absent) stops the program and removes all of it, including its rules and its user.
    type: str
    default: present
    choices: [present, absent]
  config:
    description:
      - A KubeProxyConfiguration with the names and nesting of C(kubeproxy.config.k8s.io/v1alpha1), without C(apiVersion) and C(kind). Required for
        O(state=present).
      - C(clientConnection.kubeconfig) is a file on the node, owned by root with mode 0600. The group C(ballast-service-proxy) gets read
        access to it and to files that it names; V(absent) revokes it. Its ServiceAccount needs the rights in C(roles/service_proxy/files/rights.yml).
      - A setting that has no effect is reported as a warning.
    type: dict
  service_proxy_name:
    description: Serve the Services with this value of the label. Empty for those without the label.
    type: str
    default: ""
requirements:
  - on the node, nftables and, for C(/usr/bin/python3), Debian's package python3-prometheus-client
seealso:
  - module: ballast.kube.service_proxy_info
  - module: ballast.kube.service_proxy_daemonset
  - module: ballast.kube.service_rules
  - module: ballast.kube.kube_proxy
"""

EXAMPLES = r"""
- name: Serve the Services that have the label, beside kube-proxy
  ballast.kube.service_proxy:
    service_proxy_name: ballast
    config:
      clientConnection: {kubeconfig: /etc/ballast/service-proxy.kubeconfig}
      clusterCIDR: 10.244.0.0/16
      healthzBindAddress: 0.0.0.0:10356
      metricsBindAddress: 127.0.0.1:10349

- name: Remove it and its rules
  ballast.kube.service_proxy:
    state: absent
"""

RETURN = r"""
command:
  description: Path of the command. C(ballast-service-proxy status --config CONFIG_PATH) shows its state.
  returned: success, not in check mode
  type: str
  sample: /usr/local/bin/ballast-service-proxy
config_path:
  description: Path of its settings.
  returned: success, not in check mode
  type: str
  sample: /etc/ballast/service-proxy.json
log:
  description: Path of its log.
  returned: success, not in check mode
  type: str
  sample: /var/log/ballast-service-proxy/service-proxy.log
pid:
  description: Process of the program; null where none runs.
  returned: success, not in check mode
  type: int
status:
  description: Output of C(ballast-service-proxy status --json); null if the program does not respond.
  returned: success, not in check mode
  type: dict
steps:
  description: Completed steps in order; in check mode, planned steps.
  returned: success
  type: list
  elements: dict
  sample: [{kind: service-proxy, verb: change, title: service ballast-service-proxy, target: /var/lib/ballast/service-proxy/sv/ballast-service-proxy}]
findings:
  description: Problems that do not stop the run, such as settings without effect.
  returned: success
  type: list
  elements: dict
seconds:
  description: Time spent, by stage.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.feature import FEATURE


def main() -> None:
    run(FEATURE)


if __name__ == "__main__":
    main()
