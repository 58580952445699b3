#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: balloon
short_description: Size nodes with balloon pods, cgroup slices and VM memory
version_added: 1.0.0
description:
  - Keeps a balloon pod on every Linux node, which reserves capacity that the node must not offer, and resizes it in place, so that the node's
    pods may request at most its target.
  - One execution plans and resizes a whole host or fleet. No host is overcommitted at any time, even after a failure.
  - A balloon never evicts or preempts a pod. Capacity requested by pods is never reclaimed - such a node returns to its previous size.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.progress_log
  - ballast.kube._balloon
  - ballast.kube._connection
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  nodes:
    required: true
  state:
    description:
      - V(absent) makes the nodes offer their full capacity, and removes their targets. The balloons are removed with the cluster's last target.
    type: str
    default: present
    choices: [present, absent]
  priority:
    description:
      - V(never-preempt) is the PriorityClass C(ballast-balloon), 1000000000 and C(preemptionPolicy=Never).
      - V(node-critical) is C(system-node-critical), which no other pod preempts. It is refused unless the API server keeps
        C(spec.podPreemptionPolicy.disableResizePreemption) of Nodes and every kubelet has the gate
        C(InPlacePodVerticalScalingSchedulerPreemption), from 1.37 on - without them a growing balloon would kill pods.
    type: str
    default: never-preempt
    choices: [never-preempt, node-critical]
  grow_timeout:
    description: Seconds that a balloon waits for pods to free capacity before it returns to its previous size.
    type: float
    default: 30.0
  image:
    description:
      - Image of a container that only sleeps.
      - Without it, the pause image that most nodes list in C(status.images), as their container runtimes keep it for sandboxes, so that nothing
        is pulled;
        of several the newest. Only images of well-known repositories count, and of the one that the DaemonSet C(kube-proxy) is from.
      - Where no node lists one, C(registry.k8s.io/pause:3.10.1). A node lists its 50 largest images alone.
    type: str
seealso:
  - module: ballast.kube.balloon_info
  - module: ballast.kube.balloon_reconciler
"""

EXAMPLES = r"""
- name: Three nodes that share a host, each a third of it
  ballast.kube.balloon:
    kubeconfig: /etc/kubernetes/admin.conf
    reserve: {cpu: "1", memory: 4Gi}
    nodes:
      - {name: n1, share: 1/3}
      - {name: n2, share: 1/3}
      - {name: n3, share: 1/3}

- name: One node gets what another gives
  ballast.kube.balloon:
    kubeconfig: /etc/kubernetes/admin.conf
    nodes:
      - {name: n1, target: {cpu: "2", memory: 8Gi}}
      - {name: n2, target: {cpu: "4", memory: 24Gi}}
"""

RETURN = r"""
nodes:
  description:
    - Of each node C(name), C(host), C(allocatable) and C(target), and the sizes of its balloon as C(desired), C(allocated) and C(actual).
    - C(free) is what the scheduler may still place. In C(limit), cpu is 0 where only memory is limited. C(message) is the kubelet's.
    - Of a node that was to be moved, C(outcome) as well (V(done), V(reverted), V(infeasible), V(rejected), V(blocked) or V(failed)), C(before) and
      C(after), and C(text), which says why.
  returned: success, and when a node did not come to its target
  type: list
  elements: dict
  sample:
    - {name: n1, outcome: done, before: {cpu: 1m, memory: 16Mi}, after: {cpu: 1250m, memory: 6144Mi}}
hosts:
  description: Of each host C(name), C(capacity), C(reserve), C(room) (unreserved), C(targets) (their sum), C(open) (schedulable on its nodes
    now) and C(holds) (not overcommitted).
  returned: success, and when a node did not come to its target
  type: list
  elements: dict
table:
  description: The same as a text table.
  returned: success, and when a node did not come to its target
  type: str
targets:
  description: By node, what its pods may request in total.
  returned: always
  type: dict
shared:
  description: Of each host with nodes of O(nodes) C(host), C(nodes), their names, and C(behind), those of them that were not at their targets.
  returned: always
  type: list
  elements: dict
  sample: [{host: 5f3c, nodes: [n1, n2], behind: [n2]}]
steps:
  description: Completed steps in order; in check mode, planned steps.
  returned: always
  type: list
  elements: dict
findings:
  description: Problems. A node that did not reach its target fails the module.
  returned: always
  type: list
  elements: dict
seconds:
  description: Time spent, by stage.
  returned: always
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._balloon.engine import BalloonEngine
from ansible_collections.ballast.kube.plugins.module_utils._balloon.request import SPEC, BalloonsRequest
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature, from_options


def main() -> None:
    run(
        Feature(
            "balloon",
            spec=SPEC,
            desired=from_options(BalloonsRequest.from_params),
            engine=BalloonEngine(),
            needs_root=False,
        )
    )


if __name__ == "__main__":
    main()
