# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Argument specs of the modules control_plane and control_plane_info."""

from __future__ import annotations

from typing import Any

from .desired import ABSENT_STATE, PORTS, PRESENT, PROFILES, STOPPED

READ: dict[str, dict[str, Any]] = {"state_dir": {"type": "path", "required": True}}

MAKE: dict[str, dict[str, Any]] = {
    **READ,
    "events": {"type": "path"},
    "state": {"type": "str", "choices": [PRESENT, STOPPED, ABSENT_STATE], "default": PRESENT},
    "name": {"type": "str", "default": "lab"},
    "profile": {"type": "str", "choices": list(PROFILES), "default": "full"},
    "kubernetes_version": {"type": "str"},
    "bin_dir": {"type": "path"},
    "address": {"type": "str"},
    **{option: {"type": "int", "default": port} for option, port in PORTS.items()},
    "service_cidr": {"type": "str", "default": "10.96.0.0/16"},
    "pod_cidr": {"type": "str", "default": "10.244.0.0/16"},
    "cluster_domain": {"type": "str", "default": "cluster.local"},
    "extra_sans": {"type": "list", "elements": "str", "default": []},
    "nodes": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "addresses": {"type": "list", "elements": "str", "default": []},
        },
    },
    "certificate_days": {"type": "int", "default": 365},
    "etcd_fsync": {"type": "bool", "default": True},
    "kubeconfig": {"type": "path"},
}
