# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Argument specs of the modules control_plane and control_plane_info."""

from __future__ import annotations

from typing import Any

from .._core.engine.events import PROGRESS_LOG
from .._core.engine.former_names import formerly
from .profiles.arguments import PROGRAMS
from .profiles.options import AUDIT_LEVELS, ENCRYPTION_PROVIDERS, NONE
from .profiles.profiles import DEPLOYMENT_MODES, ETCD_CHOICES, FULL, PROFILES
from .request import ABSENT_STATE, MEMBERS, PORTS, PRESENT, STOPPED

READ: dict[str, dict[str, Any]] = {"state_dir": {"type": "path", "required": True}}
INFO: dict[str, dict[str, Any]] = {
    "state_dir": {"type": "path"},
    "plane_dir": {"type": "path"},
    "readiness": {"type": "bool", "default": False},
}
INFO_ONE_OF = ("state_dir", "plane_dir")


def _lists(*parts: str) -> dict[str, Any]:
    options = {part: {"type": "list", "elements": "str", "default": []} for part in parts}
    return {"type": "dict", "default": {}, "options": options}


MAKE: dict[str, dict[str, Any]] = {
    **READ,
    **PROGRESS_LOG,
    "state": {"type": "str", "choices": [PRESENT, STOPPED, ABSENT_STATE], "default": PRESENT},
    "name": {"type": "str", "default": "kubernetes"},
    "profile": {"type": "str", "choices": list(PROFILES), "default": FULL},
    "deployment_mode": {
        "type": "str",
        "choices": list(DEPLOYMENT_MODES),
        **formerly("shape"),
    },
    "crds": {"type": "bool", "default": True},
    "aggregation": {"type": "raw", "default": True},
    "aggregation_metrics": {"type": "str"},
    "resources": _lists("add", "remove"),
    "controllers": _lists("add", "remove"),
    "admission": _lists("enable", "disable"),
    "etcd": {"type": "str", "choices": list(ETCD_CHOICES)},
    "etcd_endpoints": {"type": "list", "elements": "str", "default": []},
    "etcd_ca": {"type": "path"},
    "etcd_certificate": {"type": "path"},
    "etcd_key": {"type": "path", "no_log": False},  # a path
    "etcd_prefix": {"type": "str"},
    "encryption": {"type": "str", "choices": [NONE, *ENCRYPTION_PROVIDERS], "default": NONE},
    "encryption_resources": {"type": "list", "elements": "str", "default": ["secrets"]},
    "audit": {"type": "str", "choices": [NONE, *AUDIT_LEVELS], "default": NONE},
    "jwt": {"type": "list", "elements": "dict", "default": []},
    "arguments": {"type": "dict", "default": {}, "options": {option: {"type": "dict"} for option in PROGRAMS}},
    "feature_gates": {"type": "dict", "default": {}},
    "kubernetes_version": {"type": "str"},
    "bin_dir": {"type": "path"},
    "address": {"type": "str"},
    "members": {"type": "int", "default": 1, "choices": list(MEMBERS)},
    **{option: {"type": "int", "default": port} for option, port in PORTS.items()},
    "service_cidr": {"type": "str"},
    "pod_cidr": {"type": "str"},
    "cluster_domain": {"type": "str", "default": "cluster.local"},
    "extra_sans": {"type": "list", "elements": "str", "default": []},
    "nodes": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "service_proxy": {"type": "bool", "default": False},
        },
    },
    "certificate_days": {"type": "int", "default": 365},
    "renew_certificates": {"type": "bool", "default": False},
    "etcd_fsync": {"type": "bool", "default": True},
    "kubeconfig": {"type": "path"},
}
