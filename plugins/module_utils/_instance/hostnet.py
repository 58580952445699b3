# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host's network needs before instances are attached: a bridge, forwarding, routes to other hosts' networks.

    pod ── ptp ── instance's namespace ── veth ── bridge of this host ── route ── other host ── ...

Every packet between nodes passes the host's own stack, so one route a network is all that a new node needs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._core.engine import Finding, ResourceEngine
from .._core.errors import BallastError, Problems
from .._core.events import Progress
from .._core.host import Host, LocalHost
from .._core.kinds import BASE_KINDS, Kind, sysctl_minimum
from .._core.names import joined
from .._core.plan import Resource
from .messages import MESSAGES
from .model import check_address, check_name, check_network
from .network import NETWORK_KINDS, mac_address, route
from .restore import RESTORE_KINDS, restored

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
class Desired:
    state: str
    state_dir: str
    lab: str
    bridge: str
    address: str
    inside: tuple[str, ...]
    routes: tuple[tuple[str, str], ...]
    at_boot: bool = False  # whether the host's systemd brings the network back after a restart

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Desired:
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
            at_boot=LocalHost().is_systemd(),
        )


class HostNetworkEngine(ResourceEngine[Desired]):
    name = "network"
    kinds: Mapping[str, Kind] = {**BASE_KINDS, **NETWORK_KINDS, **RESTORE_KINDS}

    def resources(self, desired: Desired) -> list[Resource]:
        if desired.state == "absent":
            return []
        bridge = Resource(
            kind="bridge",
            target=desired.bridge,
            value={"address": desired.address, "mac": mac_address(f"{desired.bridge} {desired.address}"), "up": True},
            title=f"bridge {desired.bridge}",
            group=_GROUP,
        )
        table = joined(desired.lab)
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
        return made + (restored(desired.state_dir, desired.lab, "network", made) if desired.at_boot else [])

    def verify(self, desired: Desired, host: Host, progress: Progress) -> list[Finding]:
        return []  # what could be asked is what observe reads

    def report(self, desired: Desired, host: Host) -> dict[str, object]:
        return {"bridge": desired.bridge, "address": desired.address}


ENGINE = HostNetworkEngine()
