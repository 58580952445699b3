# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The errors of the policy that copies the priority of pods."""

from __future__ import annotations

from ..._core.text.errors import Message, Messages, PeerError, UserError

MESSAGES = Messages(
    "docs/reference/errors-pull-proxy.md",
    [
        Message(
            id="pulls-priority-kubeconfig",
            error=UserError,
            text="kubeconfig: {path} does not exist on the machine where the module runs",
            remedy="name an administrator's kubeconfig, and delegate the task to the machine that has it",
        ),
        Message(
            id="pulls-priority-annotation",
            error=UserError,
            text="annotation: {value} is not an annotation key",
            remedy="write PREFIX/NAME, the prefix a DNS name, as in image-pulls.ballast.dev/priority; the same as priority.annotation of the proxy",
        ),
        Message(
            id="pulls-priority-unserved",
            error=PeerError,
            text="the API server does not serve MutatingAdmissionPolicy, which copies the pods' priority",
            remedy="use Kubernetes 1.36 or newer; 1.34 and 1.35 serve it with --feature-gates=MutatingAdmissionPolicy=true and "
            "--runtime-config=admissionregistration.k8s.io/v1beta1=true; or omit the policy and order by namespace only",
        ),
        Message(
            id="pulls-priority-foreign",
            error=PeerError,
            text="{kind} {name} already exists and was not created by this module",
            remedy="check what it is for; remove it, then run the same command again",
        ),
        Message(
            id="pulls-priority-lost",
            error=PeerError,
            text="the policy was modified concurrently: another client changes the same objects",
            remedy="find the client that writes them (kubectl get --show-managed-fields), then run the same command again",
        ),
    ],
)
