# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The programs that a control plane needs, as the module kubernetes_binaries is asked for them. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..._binaries.families import COMPONENTS

_KUBERNETES = "kubernetes"
_ALWAYS = ("kubectl", "etcdctl", "etcdutl")  # to use it, and to keep and check its data


def families(processes: Collection[str]) -> list[dict[str, Any]]:
    """What each program's family is to provide, sorted by name; of kubernetes only what runs here, since it takes long to build."""
    wanted: dict[str, set[str]] = {}
    for program in (*processes, *_ALWAYS):
        wanted.setdefault(COMPONENTS[program].name, set()).add(program)
    return [
        {"name": name, "programs": sorted(programs)} if name == _KUBERNETES else {"name": name}
        for name, programs in sorted(wanted.items())
    ]
