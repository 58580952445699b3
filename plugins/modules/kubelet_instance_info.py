#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubelet_instance_info
short_description: Report the node instances of a host
version_added: 1.0.0
description:
  - Reports the current state of each instance - readiness, versions, paths, processes, memory and namespaces.
  - Takes the options of M(ballast.kube.kubelet_instance), so that one set of variables serves both.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._attributes.state_dir
  - ballast.kube._attributes.progress_log
  - ballast.kube._instance
  - ballast.kube._readiness
seealso:
  - module: ballast.kube.kubelet_instance
"""

EXAMPLES = r"""
- name: Read the state of n1
  ballast.kube.kubelet_instance_info:
    state_dir: /var/lib/ballast/lab/nodes
    bridge: ballast-lab
    gateway: 10.97.0.1/24
    api_server: https://10.97.0.1:6443
    cluster_cidr: 10.128.0.0/16
    bin_dir: /opt/ballast/bin
    kubernetes_version: 1.37.1
    instances:
      - name: n1
        address: 10.97.0.11
        pod_cidr: 10.128.1.0/24
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
options:
  description:
    - The options of the last run of M(ballast.kube.kubelet_instance) with O(state_dir), without keys and deadlines; null if it has not run.
  returned: always
  type: dict
  sample: {lab: lab, instances: [{name: n1, address: 10.97.0.11, pod_cidr: 10.128.1.0/24}], kubernetes_version: 1.37.1}
readiness:
  description:
    - The measured part of the production readiness report, in the form of M(ballast.kube.readiness_info).
    - It has C(feature), C(answers) by name, C(present), the failure modes that were found, and C(versions).
    - Each of C(answers) has C(verdict), C(text), C(how), C(remedy), C(figures), C(lines) and C(failure_modes).
    - If failure modes explain one, its C(text) or C(remedy) can be empty, and the report fills it in.
    - An existing instance that is not listed in O(instances) is not measured, and the report says so.
  returned: O(readiness=true)
  type: dict
seconds:
  description: Time spent, by stage.
  returned: always
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info, with_seconds
from ansible_collections.ballast.kube.plugins.module_utils._instance.info import INFO_SPEC, read_params


def main():
    run_info(INFO_SPEC, with_seconds(read_params))


if __name__ == "__main__":
    main()
