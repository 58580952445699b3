# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host's network for instances: a bridge, forwarding, masquerading, routes to the networks of other hosts.

    pod ── ptp ── instance's namespace ── veth ── bridge of this host ── route ── other host ── ...

Every packet between nodes passes the host's own stack, so a new node needs one route for each of its networks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._core.engine.context import Context
from .._core.engine.engine import ResourceEngine
from .._core.engine.kinds import BASE_KINDS, Kind, sysctl_minimum
from .._core.engine.plan import Recorded, Resource
from .._core.host.host import Host
from .._core.host.names import join_name
from .._core.text.errors import BallastError, Problems
from .._registry.names import refuse_others_directory
from .messages import MESSAGES
from .model import check_address, check_name, check_network
from .network import NETWORK_KINDS, mac_address, route
from .restore import RESTORE_KINDS, restore_resources

SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
    "state_dir": {"type": "path", "required": True},
    "events": {"type": "path"},
    "lab": {"type": "str", "default": "lab"},
    "bridge": {"type": "str"},
    "address": {"type": "str"},
    "inside": {"type": "list", "elements": "str", "default": []},
    "routes": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"to": {"type": "str", "required": True}, "via": {"type": "str", "required": True}},
    },
}
REQUIRED_IF = [("state", "present", ("bridge", "address"))]
_LINK = re.compile(r"[a-z0-9][-a-z0-9._]{0,14}", re.ASCII)
_GROUP = "host network"


@dataclass(frozen=True)
class HostNetworkRequest:
    state: str
    state_dir: str
    lab: str
    bridge: str
    address: str
    inside: tuple[str, ...]
    routes: tuple[tuple[str, str], ...]
    at_boot: bool = False  # whether the host's systemd brings the network back after a restart

    @classmethod
    def from_params(cls, params: Mapping[str, Any], host: Host) -> HostNetworkRequest:
        problems: list[BallastError] = []
        check_name(params["lab"], "lab", problems)
        if params["state"] == "present":
            check_address(params["address"], "address", problems, interface=True)
            if not _LINK.fullmatch(params["bridge"]):
                problems.append(MESSAGES.error("instance-link", path="bridge", value=params["bridge"]))
        for number, text in enumerate(params["inside"]):
            check_network(text, f"inside[{number}]", problems)
        for number, row in enumerate(params["routes"]):
            check_network(row["to"], f"routes[{number}].to", problems)
            check_address(row["via"], f"routes[{number}].via", problems, interface=False)
        Problems.raise_if(problems)
        return cls(
            state=params["state"],
            state_dir=params["state_dir"].rstrip("/"),
            lab=params["lab"],
            bridge=params["bridge"] or "",
            address=params["address"] or "",
            inside=tuple(sorted(params["inside"])),
            routes=tuple(sorted((row["to"], row["via"]) for row in params["routes"])),
            at_boot=host.is_systemd(),
        )


class HostNetworkEngine(ResourceEngine[HostNetworkRequest]):
    name = "network"
    kinds: Mapping[str, Kind] = {**BASE_KINDS, **NETWORK_KINDS, **RESTORE_KINDS}

    def read_recorded(self, ctx: Context[HostNetworkRequest]) -> tuple[Recorded, ...]:
        refuse_others_directory(ctx.host, ctx.desired.state_dir, name=ctx.desired.lab)
        return super().read_recorded(ctx)

    def wanted(self, ctx: Context[HostNetworkRequest]) -> list[Resource]:
        desired = ctx.desired
        if desired.state == "absent":
            return []
        bridge = Resource(
            kind="bridge",
            target=desired.bridge,
            value={"address": desired.address, "mac": mac_address(f"{desired.bridge} {desired.address}"), "up": True},
            title=f"bridge {desired.bridge}",
            group=_GROUP,
        )
        table = join_name(desired.lab)
        masquerade = Resource(
            kind="masquerade",
            target=table,
            value={"bridge": desired.bridge, "inside": list(desired.inside)},
            title=f"nftables table ip {table}",
            group=_GROUP,
        )
        made = [
            bridge,
            sysctl_minimum("net.ipv4.ip_forward", 1, holder=desired.state_dir),
            *([masquerade] if desired.inside else []),
            *(route(to, via=via, group=_GROUP) for to, via in desired.routes),
        ]
        return made + (restore_resources(desired.state_dir, desired.lab, "network", made) if desired.at_boot else [])

    def report(self, ctx: Context[HostNetworkRequest]) -> dict[str, object]:
        return {"bridge": ctx.desired.bridge, "address": ctx.desired.address}


ENGINE = HostNetworkEngine()
