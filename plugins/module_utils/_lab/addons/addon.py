# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What defines an add-on of a lab: binaries, images made of them, and API objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..._core.host.host import Host
from ..trial import Trial


@dataclass(frozen=True)
class Addon:
    name: str
    families: tuple[Mapping[str, Any], ...]  # families of binaries, in the form of the role kubernetes_binaries
    images: tuple[str, ...]  # presets of image_archive that are made of these binaries
    # Makes the objects by path, from the lab's record and the machine that makes the lab.
    manifests: Callable[[Mapping[str, Any], Host], dict[str, dict[str, Any]]]
    workloads: tuple[str, ...]  # the paths of the Deployments and DaemonSets whose pods are the add-on
    # For objects that are no plain manifests: the kind of resource by the object's path.
    kinds: Mapping[str, str] = field(default_factory=dict)
    needs_ipv4: bool = False
    on_bridge: bool = False  # needs nodes on the lab's bridge, so it cannot run in virtual machines
    needs: tuple[Trial, ...] = ()  # features of the kernel of its nodes
