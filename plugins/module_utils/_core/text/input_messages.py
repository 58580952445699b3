# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about input that is not valid JSON, YAML or a quantity."""

from __future__ import annotations

from .errors import PAGE, HostError, Message, Messages, UserError

MESSAGES = Messages(
    PAGE,
    [
        Message(
            id="core-json",
            error=HostError,
            text="expected JSON, found something else",
            remedy="find its source: a damaged file, or another program in place of the expected one",
        ),
        Message(
            id="core-document",
            error=UserError,
            text="{name} cannot be read as YAML or JSON",
            remedy="fix the file: it must be one document without anchors, with strings as keys",
        ),
        Message(
            id="core-pyyaml",
            error=HostError,
            text="{name} is not plain YAML, and this machine lacks the Python package PyYAML, which reads other YAML",
            remedy="write that line in plain YAML, as kubeadm does, or write the file as JSON; or install PyYAML ({packages})",
        ),
        Message(
            id="core-quantity",
            error=UserError,
            text="{path}: {value} is not a quantity; use a number with a suffix such as 500m, 2, 512Mi or 1Gi",
            remedy="write the amount as in Kubernetes",
        ),
    ],
)
