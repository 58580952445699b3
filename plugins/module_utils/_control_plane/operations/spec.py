# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Argument specs of the modules control_plane_backup and control_plane_restore."""

from __future__ import annotations

from typing import Any

from ..._core.engine.events import PROGRESS_LOG

_OPERATION: dict[str, dict[str, Any]] = {
    "state_dir": {"type": "path", "required": True},
    "bin_dir": {"type": "path"},
    **PROGRESS_LOG,
}
BACKUP: dict[str, dict[str, Any]] = {**_OPERATION, "path": {"type": "path", "required": True}}
RESTORE: dict[str, dict[str, Any]] = {
    **_OPERATION,
    "archive": {"type": "path", "required": True},
    "replace": {"type": "bool", "default": False},
    "kubernetes_version": {"type": "str"},
}
