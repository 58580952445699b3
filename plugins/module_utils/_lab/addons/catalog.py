# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The add-ons of a lab, and the engine that makes their objects.

The journal says which objects belong to an add-on that the lab no longer has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._control_plane.pki.identities import LAB_ADDONS
from ..._core.engine.context import Context
from ..._core.engine.engine import ResourceEngine
from ..._core.engine.events import PROGRESS_LOG
from ..._core.engine.kinds import Kind
from ..._core.engine.plan import Resource
from ..manifests import manifest_kinds, manifest_resources
from .addon import Addon
from .address_pool import ADDRESS_POOL, AddressPoolKind
from .dns import DNS
from .load_balancer import LOAD_BALANCER
from .metrics import METRICS
from .network_policy import NETWORK_POLICY
from .registry import REGISTRY
from .storage import STORAGE

ADDONS: Mapping[str, Addon] = {
    addon.name: addon for addon in (DNS, STORAGE, METRICS, LOAD_BALANCER, NETWORK_POLICY, REGISTRY)
}

SPEC: dict[str, Any] = {
    "state_dir": {"type": "path", "required": True},
    **PROGRESS_LOG,
    "plane_dir": {"type": "path", "required": True},
    "lab": {"type": "dict", "required": True},
}


@dataclass(frozen=True)
class AddonsRequest:
    state_dir: str
    plane_dir: str
    lab: Mapping[str, Any]

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> AddonsRequest:
        return cls(
            state_dir=params["state_dir"].rstrip("/"), plane_dir=params["plane_dir"].rstrip("/"), lab=params["lab"]
        )


class AddonsEngine(ResourceEngine[AddonsRequest]):
    name = "addons"
    kinds: Mapping[str, Kind] = {**manifest_kinds(LAB_ADDONS), ADDRESS_POOL: AddressPoolKind(LAB_ADDONS)}

    def wanted(self, ctx: Context[AddonsRequest]) -> list[Resource]:
        desired = ctx.desired
        return [
            resource
            for name in desired.lab.get("addons", ())
            for resource in manifest_resources(
                desired.plane_dir,
                ADDONS[name].manifests(desired.lab, ctx.host),
                group=f"add-on {name}",
                kinds=ADDONS[name].kinds,
            )
        ]


ENGINE = AddonsEngine()


def addon_parts(names: Sequence[str]) -> dict[str, Any]:
    """For the chosen add-ons: `families` of binaries, and the `images` made of them."""
    chosen = [ADDONS[name] for name in names]
    return {
        "families": [dict(family) for addon in chosen for family in addon.families],
        "images": [image for addon in chosen for image in addon.images],
    }
