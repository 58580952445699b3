# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The binaries that a control plane needs, as options of the module kubernetes_binaries. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..._binaries.families import COMPONENTS

_KUBERNETES = "kubernetes"
_ALWAYS = ("kubectl", "etcdctl", "etcdutl")  # to use it, and to keep and check its data


def required_families(processes: Collection[str]) -> list[dict[str, Any]]:
    """Families with their binaries, sorted by name; of kubernetes only the needed ones, since it takes long to build."""
    programs_of: dict[str, set[str]] = {}
    for program in (*processes, *_ALWAYS):
        programs_of.setdefault(COMPONENTS[program].name, set()).add(program)
    return [
        {"name": name, "programs": sorted(programs)} if name == _KUBERNETES else {"name": name}
        for name, programs in sorted(programs_of.items())
    ]
