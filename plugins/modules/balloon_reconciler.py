#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: balloon_reconciler
short_description: Run a service that keeps balloons at the size that their nodes' targets ask for
version_added: 1.0.0
description:
  - Installs and runs C(ballast-balloons). It reads each node's target from the annotation C(balloons.ballast.dev/target), which
    M(ballast.kube.balloon) writes. It resizes the balloon whenever it differs, for example after the pod was deleted. It removes the startup
    taint from a new node once the balloon has its size. See C(docs/balloon-reconciler.md).
  - One per cluster is enough. Several are safe, also while M(ballast.kube.balloon) runs; only one resizes the balloons of a host at once. With
    O(slices) or O(vm), run one on each machine that hosts nodes, for the nodes of that machine.
  - The running reconciler reloads changed settings. A change of O(metrics) or a new version of the program restarts it. This changes no balloon.
  - A failed change is rolled back. The module waits until the running reconciler reports these settings; this needs no API server.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.progress_log
  - ballast.kube._balloon_reconciler
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description: V(absent) stops the reconciler and removes all of it. Balloons and targets stay unchanged.
    type: str
    default: present
    choices: [present, absent]
  kubeconfig:
    description:
      - A kubeconfig on this machine, readable only by its owner (mode 0600). It is used in place, not copied. Required for O(state=present).
      - C(docs/balloon-reconciler.md) lists the rights that its user needs; the role C(ballast.kube.balloons) creates a ServiceAccount with these
        rights.
    type: path
  context:
    description: The context of O(kubeconfig). The default is its current one.
    type: str
  namespace:
    description: Where the balloon pods are, and the Leases. The default is where M(ballast.kube.balloon) created them.
    type: str
  nodes:
    description: The nodes to keep at their targets. The default is every node that has one. Required with O(slices) and O(vm).
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      slice:
        description: With O(slices), the name of the node's cgroup, such as V(ballast-lab-n1), without C(.slice).
        type: str
      qmp:
        description: With O(vm), the path of the virtual machine's QMP socket.
        type: path
  reserve:
    description: Capacity of each host that no node gets. The default is the sum of the reservations of its nodes' kubelets.
    type: dict
    suboptions:
      cpu:
        description: A quantity, such as V(500m).
        type: str
        required: true
      memory:
        description: A quantity, such as V(2Gi).
        type: str
        required: true
  slices:
    description: Whether the cgroup of each node is limited in step with its balloon. The nodes are kubelets of this machine's kernel.
    type: bool
  vm:
    description: Whether virtio-balloon changes the memory of each node in step with its balloon. The nodes are virtual machines on this machine.
    type: bool
  interval:
    description: The longest time between two full checks.
    type: str
    default: 60s
  grow_timeout:
    description: How long a growing balloon may wait for free capacity before it returns to its previous size.
    type: str
    default: 30s
  retry:
    description: When to retry a node that did not reach its target.
    type: dict
    suboptions:
      first:
        description: Delay after the first attempt, and after any attempt once capacity is free.
        type: str
        default: 10s
      most:
        description: The delay doubles with each attempt, up to this.
        type: str
        default: 600s
  metrics:
    description: Loopback address and port, V(127.0.0.1:PORT), where C(/metrics) is served for Prometheus. Off by default.
    type: str
requirements:
  - on the machine, for C(/usr/bin/python3), Debian's packages python3-prometheus-client and python3-yaml
seealso:
  - module: ballast.kube.balloon_reconciler_info
  - module: ballast.kube.balloon
"""

EXAMPLES = r"""
- name: Keep every balloon of the cluster at its target
  ballast.kube.balloon_reconciler:
    kubeconfig: /etc/ballast/balloons.kubeconfig
    metrics: 127.0.0.1:9456

- name: Two kubelets of this machine, with their slices in step
  ballast.kube.balloon_reconciler:
    kubeconfig: /etc/ballast/balloons.kubeconfig
    slices: true
    reserve:
      cpu: 500m
      memory: 2Gi
    nodes:
      - name: n1
        slice: ballast-lab-n1
      - name: n2
        slice: ballast-lab-n2

- name: Take it away
  ballast.kube.balloon_reconciler:
    state: absent
"""

RETURN = r"""
command:
  description: Path of the command. C(ballast-balloons status --config CONFIG_PATH) shows its state.
  returned: success, not in check mode
  type: str
  sample: /usr/local/bin/ballast-balloons
config_path:
  description: Path of its settings.
  returned: success, not in check mode
  type: str
  sample: /etc/ballast/balloons.json
log:
  description: Path of its log, with one line per action.
  returned: success, not in check mode
  type: str
  sample: /var/log/ballast-balloons/balloons.log
pid:
  description: Process of the reconciler; null where none runs.
  returned: success, not in check mode
  type: int
status:
  description: Output of C(ballast-balloons status --json); null if the reconciler does not respond.
  returned: success, not in check mode
  type: dict
steps:
  description: Completed steps in order; in check mode, planned steps.
  returned: success
  type: list
  elements: dict
  sample: [{kind: balloons, verb: change, title: service ballast-balloons, target: /var/lib/ballast/balloons/sv/ballast-balloons}]
findings:
  description: Problems that do not stop the run.
  returned: success
  type: list
  elements: dict
seconds:
  description: Time spent, by stage.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.request import (
    REQUIRED_IF,
    SPEC,
    Deployment,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature, from_options


def main() -> None:
    run(
        Feature(
            "balloons", spec=SPEC, desired=from_options(Deployment.from_params), engine=ENGINE, required_if=REQUIRED_IF
        )
    )


if __name__ == "__main__":
    main()
