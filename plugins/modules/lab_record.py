#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_record
short_description: "Internal: decide the nodes, addresses and limits of a lab, and record them"
version_added: 1.0.0
description:
  - Resolves a number of nodes or a topology into a record of the lab, with every address, network and limit. Recorded values are kept,
    so nodes keep their addresses.
  - Checks first that the host meets all requirements, and reports all missing prerequisites together.
  - The playbook C(ballast.kube.lab_up) creates the lab's parts from this record with other modules.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.progress_log
  - ballast.kube._lab
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description: V(absent) removes the record and the files next to it, and reports resources that were left behind.
    type: str
    default: present
    choices: [present, absent]
  lab_dir:
    description: Directory of the lab. It must be new, empty, or the directory of a lab; a directory with other files is refused.
    type: path
    default: /var/lib/ballast/lab
  name:
    description: Name of the lab. The default is the topology's name, else the recorded name, else V(lab).
    type: str
  nodes:
    description:
      - Number of nodes. If the topology has more, its first nodes are used; if it has fewer, nodes with its defaults are added.
      - The default is the number of nodes in O(topology), else the recorded number, else V(3).
    type: int
  topology:
    description: Content of a topology file, see C(docs/lab.md). The default is the recorded topology.
    type: dict
  target:
    description: V(host) runs the nodes on this host, V(vm) in virtual machines. The default is the recorded value, else V(host).
    type: str
    choices: [host, vm]
  bootstrap:
    description:
      - How the cluster is created. V(lab) runs the control plane on this host, and node instances on the hosts.
      - With V(kubeadm), C(kubeadm init) and C(kubeadm join) turn each virtual machine into a node, as kubeadm's documentation describes.
        Then only C(defaults.proxy_backend), names, networks and the version of a topology apply.
      - The default is the recorded value, else V(lab).
    type: str
    choices: [lab, kubeadm]
  hosts:
    description: Number of virtual machines. The default is the recorded number, else 2.
    type: int
  kubernetes_version:
    description: Version of Kubernetes. The default is the topology's, else the recorded version, else V(1.37.2).
    type: str
  resize:
    description:
      - New sizes of nodes, which override the topology from now on. Nodes without a size share the remaining capacity.
      - This creates balloons, see M(ballast.kube.balloon), so that sizes change while the kubelet runs.
    type: list
    elements: dict
    suboptions:
      name:
        description: The node.
        type: str
        required: true
      cpu:
        description: Its CPU, as a Kubernetes quantity. The default is its current CPU.
        type: str
      memory:
        description: Its memory, as a Kubernetes quantity. The default is its current memory.
        type: str
  addons:
    description:
      - Add-ons of the lab. Use only V(none) for no add-ons.
      - V(dns) is CoreDNS for all pods, V(storage) a default StorageClass, V(metrics) the resource usage of nodes and pods.
      - V(load_balancer) gives addresses to Services of type LoadBalancer, not with O(target=vm). V(registry) is a registry that every node
        pulls from.
      - The default is that of O(topology) or the recorded value, else V(dns), V(storage) and V(load_balancer) when binaries are built or
        cached. When Kubernetes is downloaded, it is those that need no build; with O(source=release) and O(source=path), none. Not with
        O(bootstrap=kubeadm), which installs CoreDNS.
    type: list
    elements: str
  ip_family:
    description:
      - IP families of nodes, pods and Services - V(ipv4), V(ipv6), or V(dual) for both with IPv4 as the primary family. O(target=vm) supports only V(ipv4).
      - The default is that of O(topology), else the recorded value, else V(ipv4). It cannot change while the lab exists.
    type: str
    choices: [ipv4, ipv6, dual]
  source:
    description:
      - Source of the binaries, as O(ballast.kube.kubernetes_binaries#module:source).
      - V(auto) decides once for each family and records the result. It prefers the cache (a build before a release), then a download
        from the release site, then a build. It skips a site that does not respond within seconds.
      - The default is the recorded value, else V(auto).
    type: str
    choices: [auto, go, release, path]
  bin_path:
    description: Directory of the binaries, with O(source=path). The default is the recorded directory.
    type: path
  toolchain_dir:
    description:
      - Directory with a folder for each buildable version of Kubernetes, next to those of the other families. When omitted, any version
        is accepted and no site is queried.
    type: path
  cache_dir:
    description: As O(ballast.kube.kubernetes_binaries#module:cache_dir).
    type: path
    default: /var/cache/ballast/binaries
  release_urls:
    description: As O(ballast.kube.kubernetes_binaries#module:release_urls).
    type: dict
    default: {}
  go:
    description: As O(ballast.kube.kubernetes_binaries#module:go).
    type: str
  archive:
    description: An image archive to import on every node, in addition to the recorded ones.
    type: path
"""

EXAMPLES = r"""
- name: Three nodes on this host
  ballast.kube.lab_record:
    nodes: 3
    kubernetes_version: 1.37.1

- name: Remove the record of a lab whose parts are removed
  ballast.kube.lab_record:
    state: absent
"""

RETURN = r"""
name:
  description: The lab's name, also of a removed lab. Empty when there was no lab.
  returned: success
  type: str
lab:
  description: The record, V(null) when absent. Its hosts and nodes are input of other modules.
  returned: success
  type: dict
parts:
  description: Input of other modules for this lab - credentials, nodes, hosts, machines. V(null) when absent.
  returned: success
  type: dict
announced:
  description: What will be downloaded and built, with sizes and times, and which add-ons are omitted. Empty when the cache has everything.
  returned: success
  type: list
  elements: str
  sample: ["build:    coredns 1.14.6 (172 s last time): about 3 min"]
turns:
  description:
    - Nodes to upgrade, in order - those that run another version of Kubernetes than the lab's, and those that an earlier run began to drain.
    - Each has C(node), its name; C(drain), whether it has pods to move; and C(instances), an option of M(ballast.kube.kubelet_instance),
      in which later nodes keep their binaries.
  returned: success
  type: list
  elements: dict
is_lost:
  description:
    - Whether the directory's content was deleted while the lab existed. V(absent) then finds the remains by the name in this host's list of labs.
  returned: success
  type: bool
labs:
  description: Names and directories of the labs and control planes of this host, as text.
  returned: success
  type: str
  sample: lab in /var/lib/ballast/lab
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
from ansible_collections.ballast.kube.plugins.module_utils._lab.engine import ENGINE, SPEC, desired_from_params


def main():
    run(Feature(name="lab", spec=SPEC, desired=desired_from_params, engine=ENGINE))


if __name__ == "__main__":
    main()
