#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_run
short_description: Run a playbook of this collection over a fleet, in slices on a management cluster
version_added: 1.0.0
description:
  - Divides the hosts of a request into slices, and runs the playbook over each in a pod of an Indexed Job, by C(ansible-runner) in an execution
    environment. A Job with the canaries goes first. See C(docs/fleet-run.md).
  - Follows the run to its end, collects a report and the logs, and removes the Namespace with all its objects. If the connection is lost, the
    run continues automatically; the same task finds and follows it.
  - A ConfigMap counts the failed nodes of the whole run. Above the limit, no slice starts another batch.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.progress_log
  - ballast.kube._connection
attributes:
  check_mode:
    support: full
    details:
      - Shows the objects that would be created. To preview the playbook, run with a request that does not act.
  diff_mode:
    support: full
    details:
      - Of the Secret, the names of its files.
  idempotent:
    support: none
    details:
      - Each task is a new run. A playbook with nothing to change changes nothing on the nodes.
options:
  state:
    description: V(absent) ends a run and removes its Namespace. Nodes whose change waits for confirmation then roll back automatically.
    type: str
    default: present
    choices: [present, absent]
  request:
    description:
      - What M(ballast.kube.playbook_request) returned for the playbook, C(kube_proxy_migrate) or C(kube_proxy_rollback).
      - Required for O(state=present).
    type: dict
  namespace:
    description: The Namespace of the run, which the module creates and removes. A Namespace that it did not create is refused.
    type: str
    default: ballast-fleet
  image:
    description: An execution environment with this collection in C(/usr/share/ansible/collections), and a user 1000 of the group root.
    type: str
    default: ballast.local/execution-environment:1
  slices:
    description: How many slices, at most 100 and at most one for each host.
    type: int
    default: 4
  parallelism:
    description: How many slices run at once. The default is all.
    type: int
  forks:
    description: Hosts that a worker changes at once.
    type: int
    default: 10
  ssh_key:
    description: A private key on this machine that the workers use to reach all hosts. A Secret holds it while the run exists.
    type: path
  known_hosts:
    description: A file on this machine with the host keys, as C(ssh) keeps them.
    type: path
  dir:
    description: A directory on this machine for C(report.json), C(report.txt) and the logs of the workers. Required for O(state=present).
    type: path
  inventory:
    description: Hosts, groups and variables of the request, as JSON. The module's action plugin sets them.
    type: str
notes:
  - The cluster needs Kubernetes 1.33 or newer, for C(backoffLimitPerIndex).
seealso:
  - module: ballast.kube.playbook_request
  - module: ballast.kube.fleet_slice
"""

EXAMPLES = r"""
- name: Check the request
  ballast.kube.playbook_request:
    playbook: kube_proxy_migrate
  register: fleet_request

- name: Run it in eight slices
  ballast.kube.fleet_run:
    kubeconfig: management.kubeconfig
    request: "{{ fleet_request }}"
    slices: 8
    ssh_key: ~/.ssh/fleet
    known_hosts: ~/.ssh/known_hosts
    dir: fleet

- name: End a run
  ballast.kube.fleet_run:
    kubeconfig: management.kubeconfig
    state: absent
"""

RETURN = r"""
lines:
  description: One line per node, and totals per outcome; for a preview, each slice's output.
  returned: success
  type: list
  elements: str
nodes:
  description: Outcome of each node, in a word or two.
  returned: success
  type: dict
  sample: {"n1": "confirmed"}
failure:
  description: Why the run is incomplete. Empty if every node is done.
  returned: success
  type: str
slices:
  description: Hosts of each slice, as a number.
  returned: success
  type: dict
  sample: {"canary-0": 1, "slice-0": 312, "slice-1": 312}
files:
  description: Files written to O(dir).
  returned: success
  type: list
  elements: str
findings:
  description: Always empty.
  returned: success
  type: list
  elements: dict
steps:
  description: Created objects; in check mode, planned ones.
  returned: success
  type: list
  elements: dict
seconds:
  description: Seconds by stage.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.request import REQUIRED_IF, SPEC, FleetRunRequest


def main():
    run(
        Feature(
            name="fleet-run",
            spec=SPEC,
            desired=FleetRunRequest.from_params,
            engine=ENGINE,
            required_if=REQUIRED_IF,
            needs_root=False,
        )
    )


if __name__ == "__main__":
    main()
