# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: the options that the check of a lab and its reading twin share.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  kubectl:
    description: Path of the C(kubectl) used to query the pods.
    type: path
    required: true
  lab:
    description: The record, as M(ballast.kube.lab_record) returns it.
    type: dict
    required: true
  instances:
    description: The results of M(ballast.kube.kubelet_instance) of all hosts.
    type: list
    elements: dict
    required: true
  control_plane:
    description: The result of M(ballast.kube.control_plane).
    type: dict
    required: true
  ready_seconds:
    description: Seconds to wait for the pods to become ready.
    type: float
    default: 120.0
  settle_seconds:
    description: Seconds after that to wait until every connection succeeds.
    type: float
    default: 20.0
  output:
    description: Form of RV(ballast_summary).
    type: str
    default: table
    choices: [table, json]
"""
