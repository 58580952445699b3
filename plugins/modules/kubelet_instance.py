#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubelet_instance
short_description: Run several kubelets on one host
version_added: 1.0.0
description:
  - Runs node instances on this host. Each is a kubelet with its own containerd and kube-proxy or service proxy, network namespace, mount namespace,
    cgroup with limits, CNI network, certificates, ports and logs.
  - The services are systemd units if PID 1 is systemd, otherwise they run under runit.
  - A journal in O(state_dir) lists all resources of an instance, and removal follows it.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.state_dir
  - ballast.kube._attributes.progress_log
  - ballast.kube._instance
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
requirements:
  - iproute2, util-linux, nftables and procps; runc, or crun for instances that choose it; runit where PID 1 is not systemd
  - for kube-proxy, iptables for O(instances[].proxy_backend=iptables), and iptables, ipvsadm and ipset for O(instances[].proxy_backend=ipvs)
notes:
  - On a remote host, O(progress_log) is a file on the Ansible control node, to which the progress of the module is appended while it
    runs. The host itself keeps it in C(events.jsonl) in O(state_dir).
seealso:
  - module: ballast.kube.kubelet_instance_info
  - module: ballast.kube.instance_network
"""

EXAMPLES = r"""
- name: Two kubelets on this host
  ballast.kube.kubelet_instance:
    state_dir: /var/lib/ballast/lab/nodes
    bridge: ballast-lab
    gateway: 10.97.0.1/24
    api_server: https://10.97.0.1:6443
    cluster_cidr: 10.128.0.0/16
    bin_dir: /opt/ballast/bin
    kubernetes_version: 1.37.1
    ca: "{{ lookup('ansible.builtin.file', '/var/lib/ballast/lab/plane/pki/ca.crt') }}"
    credentials: "{{ node_credentials }}"
    instances:
      - name: n1
        address: 10.97.0.11
        pod_cidr: 10.128.1.0/24
        memory: 2Gi
      - name: n2
        address: 10.97.0.12
        pod_cidr: 10.128.2.0/24
        proxy_backend: iptables

- name: Remove all instances of this host
  ballast.kube.kubelet_instance:
    state: absent
    state_dir: /var/lib/ballast/lab/nodes
"""

RETURN = r"""
instances:
  description: The current state of each instance. Empty unless O(state=present).
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the Node.
      type: str
    address:
      description: Address of the instance.
      type: str
    pod_cidr:
      description: Network of its pods.
      type: str
    proxy_backend:
      description: The backend of its Services in its current configuration, which is the mode of its kube-proxy, or V(ballast).
      type: str
    proxy_reason:
      description: Why its proxy is not healthy; empty when it is.
      type: str
    ready:
      description: Whether its Node has the condition Ready.
      type: bool
    reason:
      description: Why it is not ready; empty when it is.
      type: str
    kubelet_version:
      description: As its Node reports it.
      type: str
    cordoned:
      description: Whether the Node is unschedulable, so that it gets no new pods (C(SchedulingDisabled)).
      type: bool
    container_runtime_version:
      description: As its Node reports it.
      type: str
    ready_seconds:
      description: Seconds from the last start of the kubelet to Ready.
      type: float
    pids:
      description: Process id of each service, V(null) for one that is down.
      type: dict
    pss_bytes:
      description: Memory of kubelet, containerd with its shims, and its proxy, as proportional set size.
      type: int
    netns:
      description: Path of its network namespace.
      type: str
    mountns:
      description: Path of its mount namespace.
      type: str
    home:
      description: Directory of its files.
      type: str
    logs:
      description: Directory of its logs.
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
from ansible_collections.ballast.kube.plugins.module_utils._instance.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._instance.record import desired_over_record
from ansible_collections.ballast.kube.plugins.module_utils._instance.spec import REQUIRED_IF, SPEC


def main():
    run(Feature(name="instance", spec=SPEC, desired=desired_over_record, engine=ENGINE, required_if=REQUIRED_IF))


if __name__ == "__main__":
    main()
