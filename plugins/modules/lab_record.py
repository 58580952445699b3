#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_record
short_description: "Internal: decide the nodes, addresses and limits of a lab, and record them"
version_added: 0.1.0
description:
  - Turns a number of nodes or a topology into a lab with every address, network and limit decided, and writes it down. What an earlier
    run wrote down is kept, so that nodes keep their addresses.
  - Checks first that the host can carry it, and says everything that is missing at once.
  - The parts of the lab are made from that record by the other modules, in the playbook C(ballast.kube.lab_up).
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.events
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
    description: V(absent) removes the record, and what runs wrote beside it, and says what stayed of the lab.
    type: str
    default: present
    choices: [present, absent]
  lab_dir:
    description: Directory of the lab. One that does not exist yet or is empty, or that of a lab; a directory with other files is refused.
    type: path
    default: /var/lib/ballast/lab
  name:
    description: Name of the lab. The default is the topology's name, else what is recorded, else V(lab).
    type: str
  nodes:
    description:
      - Number of nodes. The first of the topology's nodes are taken, and nodes with its defaults are added where it has fewer.
      - The default is the number of nodes in O(topology), else what is recorded, else V(3).
    type: int
  topology:
    description: Content of a topology file, see C(docs/lab.md). The default is what is recorded.
    type: dict
  target:
    description: V(host) puts the nodes on this host, V(vm) on virtual machines. The default is what is recorded, else V(host).
    type: str
    choices: [host, vm]
  bootstrap:
    description:
      - What makes the cluster. V(lab) runs the control plane on this host, and node instances on the hosts.
      - With V(kubeadm), C(kubeadm init) and C(kubeadm join) make a node of each virtual machine, as kubeadm's documentation describes it.
        Of a topology, C(defaults.proxy_backend), names, networks and the version count then.
      - The default is what is recorded, else V(lab).
    type: str
    choices: [lab, kubeadm]
  hosts:
    description: Number of virtual machines. The default is what is recorded, else 2.
    type: int
  kubernetes_version:
    description: Version of Kubernetes. The default is the topology's, else what is recorded, else V(1.37.2).
    type: str
  resize:
    description:
      - Nodes of the lab that are given another size from now on, over what the topology says. Nodes that were never given one divide the rest.
      - The lab has balloons then, see M(ballast.kube.balloon), so that a size changes while the kubelet runs.
    type: list
    elements: dict
    suboptions:
      name:
        description: The node.
        type: str
        required: true
      cpu:
        description: Its CPU, as a Kubernetes quantity. The default is what it has.
        type: str
      memory:
        description: Its memory, as a Kubernetes quantity. The default is what it has.
        type: str
  addons:
    description:
      - What comes with the lab, of V(dns), CoreDNS for all pods, V(storage), a default StorageClass, V(metrics), what nodes and pods use,
        V(load_balancer), addresses for Services of type LoadBalancer, not with O(target=vm), and V(registry), a
        registry that every node pulls from. V(none) alone for nothing.
      - The default is that of O(topology) or what is recorded, else V(dns), V(storage) and V(load_balancer) where programs are built
        or in the cache. Where Kubernetes is downloaded, those that need no build; with O(source=release) and O(source=path) nothing. Not with
        O(bootstrap=kubeadm), which brings CoreDNS.
    type: list
    elements: str
  ip_family:
    description:
      - IP families of nodes, pods and Services - V(ipv4), V(ipv6), or V(dual) for both, of which IPv4 is the primary one. Only V(ipv4) with
        O(target=vm).
      - The default is that of O(topology), else what is recorded, else V(ipv4). It cannot change while the lab is there.
    type: str
    choices: [ipv4, ipv6, dual]
  source:
    description:
      - Where the programs come from, as O(ballast.kube.kubernetes_binaries#module:source).
      - V(auto) decides for each family, once for the lab, and records it. It takes what the cache has, a build before a release; else what
        the release site has; else it builds. A site that does not answer within seconds is not waited for.
      - The default is what is recorded, else V(auto).
    type: str
    choices: [auto, go, release, path]
  bin_path:
    description: Directory of the programs, with O(source=path). The default is what is recorded.
    type: path
  toolchain_dir:
    description:
      - Directory with a folder for each version of Kubernetes that can be built, beside those of the other families. Any version is taken
        when left out, and no site is asked.
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
    description: An image archive that every node is to have, besides those recorded.
    type: path
"""

EXAMPLES = r"""
- name: Three nodes on this host
  ballast.kube.lab_record:
    nodes: 3
    kubernetes_version: 1.37.1

- name: Forget a lab whose parts have been removed
  ballast.kube.lab_record:
    state: absent
"""

RETURN = r"""
name:
  description: The lab's name, also of one that is removed. Empty where there was none.
  returned: success
  type: str
lab:
  description: The record, V(null) when absent. Its hosts and nodes are what the other modules take.
  returned: success
  type: dict
parts:
  description: What the other modules are to be given for this lab - credentials, nodes, hosts, machines. V(null) when absent.
  returned: success
  type: dict
announced:
  description: What will be downloaded and built, with sizes and times, and which add-ons are left out. Empty where the cache has everything.
  returned: success
  type: list
  elements: str
  sample: ["build:    coredns 1.14.6 (172 s last time): about 3 min"]
turns:
  description:
    - One after the other, the nodes that run another version of Kubernetes than the lab's, or whose drain an earlier run began.
    - Each has C(node), its name; C(drain), whether it has pods to move; and C(instances), an option of M(ballast.kube.kubelet_instance), in which
      nodes whose turn is yet to come keep their programs.
  returned: success
  type: list
  elements: dict
is_lost:
  description:
    - Whether the directory's content was deleted while the lab was there. V(absent) finds what is left of it by the name that the
      list of labs of this host has for the directory.
  returned: success
  type: bool
labs:
  description: Names and directories of the labs and control planes of this host, as a text.
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
      description: Kind of thing.
      type: str
    verb:
      description: V(make), V(change) or V(remove).
      type: str
    title:
      description: The thing, in words.
      type: str
    target:
      description: What identifies it within its kind.
      type: str
findings:
  description: What was found wrong afterwards.
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
