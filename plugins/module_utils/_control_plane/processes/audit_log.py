# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The audit log: the policy, and the flags that keep the log within bounds. Pure."""

from __future__ import annotations

import json
import os

from ..profiles.options import NONE
from ..request import ControlPlaneRequest
from .flags import Flags, flags

# Bodies of these resources hold credentials, so the log has only their metadata, whatever the level.
_SECRET = (
    {"group": "", "resources": ["secrets", "serviceaccounts/token"]},
    {"group": "authentication.k8s.io", "resources": ["tokenreviews"]},
)
_HEALTH = ["/healthz*", "/livez*", "/readyz*"]
_MEGABYTES, _FILES, _DAYS = "100", "5", "30"


def audit_files(request: ControlPlaneRequest) -> dict[str, str]:
    """The audit policy: its text as JSON, by its path. Empty when the request has no audit log."""
    if request.audit == NONE:
        return {}
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "nonResourceURLs": _HEALTH},
            {"level": "Metadata", "resources": list(_SECRET)},
            {"level": request.audit},
        ],
    }
    return {_policy_path(request): json.dumps(policy, indent=2) + "\n"}


def audit_flags(request: ControlPlaneRequest) -> Flags:
    """Empty when the request has no audit log."""
    if request.audit == NONE:
        return []
    return [
        *flags(
            f"audit: {request.audit}",
            ("audit-policy-file", _policy_path(request)),
            ("audit-log-path", os.path.join(request.log_dir, f"{request.in_member('audit')}.log")),
        ),
        *flags(
            "the log does not fill the disk",
            ("audit-log-maxsize", _MEGABYTES),
            ("audit-log-maxbackup", _FILES),
            ("audit-log-maxage", _DAYS),
        ),
    ]


def _policy_path(request: ControlPlaneRequest) -> str:
    return request.at("config", "audit-policy.json")
