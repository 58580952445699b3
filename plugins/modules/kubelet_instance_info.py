#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubelet_instance_info
short_description: Report the node instances of a host
version_added: 0.1.0
description:
  - Reports each instance as it is now - readiness, versions, paths, processes, memory and namespaces.
  - Takes the options of M(ballast.kube.kubelet_instance), so that one set of variables serves both.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._attributes.state_dir
  - ballast.kube._attributes.events
  - ballast.kube._instance
  - ballast.kube._readiness
seealso:
  - module: ballast.kube.kubelet_instance
"""

EXAMPLES = r"""
- name: How is n1
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
  description: Each instance, measured now. Empty unless O(state=present).
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
      description: What serves its Services, as its configuration has it now. The mode of its kube-proxy, or V(ballast).
      type: str
    proxy_reason:
      description: Why that is not healthy, as observed; empty where it is.
      type: str
    ready:
      description: Whether its Node has the condition Ready.
      type: bool
    reason:
      description: Why not, as observed.
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
      description: Seconds from the kubelet's start to Ready, of its last start.
      type: float
    pids:
      description: Process of each service, V(null) for one that is down.
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
    - The options that M(ballast.kube.kubelet_instance) was given last for O(state_dir), without keys and deadlines; null where it has not run.
  returned: always
  type: dict
  sample: {lab: lab, instances: [{name: n1, address: 10.97.0.11, pod_cidr: 10.128.1.0/24}], kubernetes_version: 1.37.1}
readiness:
  description:
    - What was measured of the feature's production readiness, as the report of M(ballast.kube.readiness_info) takes it - C(feature),
      C(answers) by name, each with C(verdict), C(text), C(how), C(remedy), C(figures), C(lines) and C(failure_modes), C(present), the
      failure modes that were found, and C(versions).
    - Where failure modes explain an answer, its C(text) or C(remedy) may be empty. The report fills it in.
    - Of an instance that is there and not named in O(instances) nothing is measured, and the answers say so.
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
