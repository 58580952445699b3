# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: which nodes, and of what host.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  namespace:
    description:
      - Namespace of the balloon pods. It must exist.
      - Without it, existing ones stay where they are, and new ones get their own namespace, C(ballast-balloons) (for another O(name),
        C(ballast-balloons-NAME)), which is created with the first and removed with the last. It admits only restricted pods.
    type: str
  name:
    description:
      - Name of the DaemonSet, its PriorityClass and the other objects. Balloons with another name than the default do not size nodes; they
        run in addition to those that do, and each counts the other as pods. They exist only on the listed nodes, reserve what is above their
        target there, use their own annotation, and are not limited by their host. They cannot be combined with O(slices), O(vm) or the priority
        C(node-critical).
      - Use one to test whether balloons work in a cluster without changing the size of a node.
    type: str
    default: ballast-balloon
  nodes:
    description:
      - The nodes to size. For each resource the target applies if it is set, otherwise the share, otherwise the weight.
      - Nodes whose kubelets see one kernel (C(status.nodeInfo.bootID)) share a host. Unlisted nodes of that host keep their size.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the Node.
        type: str
        required: true
      target:
        description: What its pods may request in total, without the balloon. Either resource may be omitted.
        type: dict
        suboptions:
          cpu:
            description: A quantity of Kubernetes, such as V(1750m).
            type: str
          memory:
            description: A quantity of Kubernetes, such as V(7Gi).
            type: str
      share:
        description: A part of the host's unreserved capacity, which is its capacity minus O(reserve), such as V(1/3). It is capped at what the
          node can offer.
        type: str
      weight:
        description: Its part of the capacity that targets and shares leave. A node with neither has weight 1.
        type: int
      slice:
        description: With O(slices), the cgroup that holds the node and all its pods, such as V(ballast-lab-n1), without C(.slice).
        type: str
      qmp:
        description: With O(vm), the QMP unix socket of the node's virtual machine.
        type: path
  reserve:
    description:
      - Capacity of each host that no node gets. The default is the sum of what its kubelets reserve for themselves, the system and eviction.
    type: dict
    suboptions:
      cpu:
        description: A quantity of Kubernetes.
        type: str
        required: true
      memory:
        description: A quantity of Kubernetes.
        type: str
        required: true
  slices:
    description:
      - Change the CPU and memory limits of the nodes' cgroups in step. The module runs on the machine that has them.
      - A balloon only affects scheduling. A limit stops a pod that uses more than it requests from taking another node's share.
    type: bool
    default: false
  vm:
    description:
      - The nodes are virtual machines on the machine where the module runs, their host. Their QEMU memory changes in step.
    type: bool
    default: false
"""
