#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: readiness_info
short_description: "Internal: judge the collected answers to the production readiness questionnaire"
version_added: 1.0.0
description:
  - Combines what the features' info modules returned with O(ignore:readiness=true) on each host, judges it, and returns a
    report in the order of the production readiness questionnaire of Kubernetes' enhancement proposals.
  - Reads no host and writes nothing. It runs on the control node, where the results were collected.
  - The answers in words and the failure modes of each feature are documents of this collection. The module reads them on the control node.
  - The report lists hosts that returned an invalid report or none, and is then not green.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
options:
  hosts:
    description: Results of each host.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Its name.
        type: str
        required: true
      reached:
        description: Whether it was reachable.
        type: bool
        default: true
      reason:
        description: Why it was not reachable.
        type: str
        default: ''
      features:
        description:
          - By name of the feature, what its info module returned as RV(ignore:readiness).
          - Where the module failed, a dictionary with its message as C(failed), in its place.
        type: dict
        default: {}
  required_hosts:
    description: Names of hosts that must be in O(hosts). A missing one counts as unreachable.
    type: list
    elements: str
    default: []
  previous:
    description:
      - The C(readiness.json) of an earlier run, whose drills are carried over. It may be absent.
      - If it exists but cannot be used, the report says so.
    type: path
  exercises:
    description: Drills that were done in this run.
    type: list
    elements: dict
    default: []
    suboptions:
      feature:
        description: Name of the feature.
        type: str
        required: true
      host:
        description: The host on which it was done.
        type: str
        required: true
      kind:
        description: V(enable) is enable, disable, enable; V(setting) is a setting changed, changed back, and changed again.
        type: str
        required: true
        choices: [enable, setting]
      at:
        description: When it ended, by RFC 3339, in UTC, to the second.
        type: str
        required: true
      version:
        description: The version of the drilled feature.
        type: str
        default: ''
      steps:
        description: Its steps in order, up to the one that failed.
        type: list
        elements: dict
        required: true
        suboptions:
          title:
            description: What was done.
            type: str
            required: true
          seconds:
            description: How long it took.
            type: float
            required: true
          ok:
            description: Whether the feature was then healthy.
            type: bool
            required: true
          text:
            description: What was seen.
            type: str
            default: ''
  documents:
    description:
      - For internal use. This collection's document about each feature, which the module's action plugin reads on the control node and passes here.
      - A task's value is replaced.
    type: list
    elements: raw
    default: []
"""

EXAMPLES = r"""
- name: Read the node's kube-proxy
  ballast.kube.kube_proxy_info:
    readiness: true
  register: node_proxy

- name: Is this node ready
  ballast.kube.readiness_info:
    hosts:
      - name: "{{ inventory_hostname }}"
        features:
          kube_proxy: "{{ node_proxy.readiness }}"
    previous: readiness/readiness.json
  register: judged

- name: Stop where it is not
  ansible.builtin.assert:
    that: not judged.report.fails
    fail_msg: "{{ judged.failure }}"
"""

RETURN = r"""
lines:
  description: What to print of the report. A grid of hosts and features with C(PASS), C(WARN), C(FAIL) and C(OFF).
  returned: success
  type: list
  elements: str
  sample: ["production readiness: FAIL", "2 of 2 hosts answered"]
report:
  description:
    - The report, complete, as C(readiness.json) has it. RV(report.verdict) is V(green), V(amber) or V(red), RV(report.fails) whether a
      required answer is not yes, RV(report.problems) the problems, each with its remedy, the worst first.
    - Each feature has its C(hosts) with their answers, its C(sections) with the questions, C(failures), C(differences) between hosts, and C(plots).
  returned: success
  type: dict
  sample:
    format: 1
    at: '2026-11-22T15:00:00Z'
    verdict: red
    fails: true
    summary:
      hosts: {all: 2, reached: 2}
      features: {all: 6, 'on': 1, red: 1, amber: 0, green: 0, grey: 5}
      answers: {all: 16, red: 1, amber: 0, green: 15, grey: 0}
    problems:
      - light: red
        fails: true
        host: n2
        feature: kube_proxy
        question: healthy
        text: kube-proxy does not say that its rules are in sync
        remedy: see its log
    hosts: [...]
    features: [...]
    exercises: []
  contains:
    verdict:
      description: The worst light of all.
      type: str
    fails:
      description: Whether the run must fail.
      type: bool
    problems:
      description: Problems.
      type: list
page:
  description: The report with what the template of the page needs besides, such as the measures of its plots.
  returned: success
  type: dict
failure:
  description: The run's failure message. Empty if nothing fails it.
  returned: success
  type: str
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness.info import SPEC, read_readiness


def main() -> None:
    run_info(SPEC, read_readiness, needs_root=False)


if __name__ == "__main__":
    main()
