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
      - Where the balloon pods are. A namespace that is named has to exist.
      - Without it they stay where they are, and new ones get a namespace of their own, C(ballast-balloons) (of another O(name), C(ballast-balloons-NAME)),
        which is made with the first of them and removed with the last. It admits restricted pods alone.
    type: str
  name:
    description:
      - Of the DaemonSet, its PriorityClass and what else is made. Balloons of another name than the default do not size nodes, and are beside
        those that do, each of the two counting the others as pods. They are on the nodes alone that are named, keep from pods what is above
        their target there, have an annotation of their own, and hold no host to a sum. O(slices), O(vm) and the priority C(node-critical) do not go with them.
      - Such a one tries whether balloons work in a cluster, without touching the size of a node.
    type: str
    default: ballast-balloon
  nodes:
    description:
      - The nodes that are sized, and for each resource by what - its target if that is given, else its share, else its weight.
      - Nodes whose kubelets see one kernel (C(status.nodeInfo.bootID)) share a host. Those of it that are not named keep what they have.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the Node.
        type: str
        required: true
      target:
        description: What its pods may request in all, the balloon not counted. Either resource may be left out.
        type: dict
        suboptions:
          cpu:
            description: A quantity of Kubernetes, such as V(1750m).
            type: str
          memory:
            description: A quantity of Kubernetes, such as V(7Gi).
            type: str
      share:
        description: A part of the host's room, which is its capacity less O(reserve), such as V(1/3). It ends at what the node can give.
        type: str
      weight:
        description: Its part of what targets and shares leave. A node with neither of them has weight 1.
        type: int
      slice:
        description: With O(slices), the cgroup that holds the node and all its pods, such as V(ballast-lab-n1), without C(.slice).
        type: str
      qmp:
        description: With O(vm), the unix socket at which QEMU answers QMP for the node's virtual machine.
        type: path
  reserve:
    description:
      - What is no node's, of each host. The default is the sum of what its kubelets reserve for themselves, the system and eviction.
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
      - Move the limits of CPU and memory of the nodes' cgroups in step. The module runs on the machine that has them.
      - A balloon is bookkeeping. A limit is what keeps a pod that uses more than it requests from what is another node's.
    type: bool
    default: false
  vm:
    description:
      - The nodes are virtual machines of the machine where the module runs. It is their host, and the memory that QEMU gives them moves in step.
    type: bool
    default: false
"""
