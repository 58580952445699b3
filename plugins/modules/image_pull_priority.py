#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_pull_priority
short_description: Annotate each pod with its priority, for the pull proxy
version_added: 1.0.0
description:
  - A container runtime receives a pod's annotations, but not its PriorityClass. This module creates a MutatingAdmissionPolicy, with its binding,
    that copies C(spec.priority) of each pod into an annotation, for C(order=priority) of M(ballast.kube.image_pull_proxy).
  - An existing annotation is overwritten, since a PriorityClass grants the priority.
  - Existing pods get it at their next change. Static pods have none, as they do not come from the API server.
  - It runs where a kubeconfig of an administrator is, once for a cluster.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._connection
  - ballast.kube._attributes.progress_log
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description: V(absent) removes the policy and its binding. Annotations that pods have stay.
    type: str
    default: present
    choices: [present, absent]
  annotation:
    description: The annotation, as C(priority.annotation) of the proxy names it.
    type: str
    default: image-pulls.ballast.dev/priority
notes:
  - The client of the kubeconfig may change MutatingAdmissionPolicies and their bindings.
  - Kubernetes serves MutatingAdmissionPolicy from 1.36 on, and 1.34 and 1.35 where it is switched on. Where it is not served, the module fails and
    says so.
seealso:
  - module: ballast.kube.image_pull_proxy
"""

EXAMPLES = r"""
- name: Copy the priority of pods
  ballast.kube.image_pull_priority:
    kubeconfig: /etc/kubernetes/admin.conf
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
annotation:
  description: The annotation that holds the priority.
  returned: success
  type: str
  sample: image-pulls.ballast.dev/priority
steps:
  description: Completed steps in order; in check mode, planned steps.
  returned: success
  type: list
  elements: dict
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
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature, from_options
from ansible_collections.ballast.kube.plugins.module_utils._pulls.priority.engine import (
    ENGINE,
    SPEC,
    ImagePullPriorityRequest,
)


def main() -> None:
    run(
        Feature(
            "image-pull-priority",
            spec=SPEC,
            desired=from_options(ImagePullPriorityRequest.from_params),
            engine=ENGINE,
            needs_root=False,
        )
    )


if __name__ == "__main__":
    main()
