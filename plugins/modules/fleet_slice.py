#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_slice
short_description: "Internal: check whether a slice of a fleet run may begin its next batch"
version_added: 1.0.0
description:
  - Playbooks that change nodes in batches run this before each batch. In a worker of M(ballast.kube.fleet_run) it reads the failures of all slices
    from the management cluster; anywhere else the batch may always start.
  - If the API server does not respond, it waits for up to half an hour. At that point no node's change waits for confirmation.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  batch:
    description: Hosts of the batch.
    type: list
    elements: str
    required: true
  failed:
    description: Hosts that failed before the first batch, because they gave no answer. All slices count them.
    type: list
    elements: str
    default: []
seealso:
  - module: ballast.kube.fleet_run
"""

EXAMPLES = r"""
- name: Ask whether this batch may begin
  ballast.kube.fleet_slice:
    batch: "{{ ansible_play_batch }}"
    failed: "{{ hostvars['localhost'].kube_proxy_preview.silent | list }}"
  register: fleet_slice_answer
  run_once: true

- name: End the play where it may not
  ansible.builtin.meta: end_play
  when: fleet_slice_answer.stop
"""

RETURN = r"""
stop:
  description: Whether no further batch may start.
  returned: success
  type: bool
why:
  description: The reason. Empty if the batch may start.
  returned: success
  type: str
  sample: 3 nodes of the whole run failed, and max_fail allows 2
"""
