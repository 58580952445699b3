# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host's network for instances: a bridge, forwarding, masquerading, published ports, node ports on loopback, routes to the networks of other hosts.

    pod ── ptp ── instance's namespace ── veth ── bridge of this host ── route ── other host ── ...

Every packet between nodes passes the host's own stack, so a new node only needs one route for each of its networks.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._core.engine.context import Context
from .._core.engine.engine import ResourceEngine
from .._core.engine.events import PROGRESS_LOG
from .._core.engine.kinds import BASE_KINDS, Kind, list_held_settings, sysctl_minimum, sysctl_path
from .._core.engine.plan import ABSENT, Recorded, Resource, State, Value
from .._core.host.host import Host
from .._core.host.names import MARK, join_name
from .._core.host.sockets import udp_servers
from .._core.text.errors import BallastError, Problems
from .._core.text.ip_families import is_ipv6, of_family, split, with_port
from .._registry.names import refuse_others_directory
from .messages import MESSAGES
from .model import check_address, check_interfaces, check_name, check_network
from .network import NETWORK_KINDS, ip_json, mac_address, route, texts
from .node_ports import NODE_PORT_KINDS, find_taken, node_port_resources, parse_node_ports
from .node_ports import SPEC as NODE_PORTS
from .restore import RESTORE_KINDS, restore_resources

SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
    "state_dir": {"type": "path", "required": True},
    **PROGRESS_LOG,
    "lab": {"type": "str", "default": "lab"},
    "bridge": {"type": "str"},
    "address": {"type": "str"},
    "inside": {"type": "list", "elements": "str", "default": []},
    "routes": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"to": {"type": "str", "required": True}, "via": {"type": "str"}},
    },
    "publish": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "port": {"type": "int", "required": True},
            "protocol": {"type": "str", "default": "tcp", "choices": ["tcp", "udp"]},
            "address": {"type": "str", "required": True},
            "to_port": {"type": "int", "required": True},
        },
    },
    "node_ports": NODE_PORTS,
}
REQUIRED_IF = [("state", "present", ("bridge", "address"))]
_LINK = re.compile(r"[a-z0-9][-a-z0-9._]{0,14}", re.ASCII)
_ACCEPT_RA = re.compile(r"net/ipv6/conf/([^/]+)/accept_ra")
_GROUP = "host network"
_SECONDS = 30
PUBLISHED = "publish"  # end of the name of its table
_PUBLISHED_KIND = "published-ports"
_FAMILIES = (
    ("", "ip", False),
    ("-ipv6", "ip6", True),
)  # end of the kind's name, family in nftables, whether it is IPv6


@dataclass(frozen=True)
class HostNetworkRequest:
    state: str
    state_dir: str
    lab: str
    bridge: str
    address: str
    inside: tuple[str, ...]
    routes: tuple[tuple[str, str], ...]
    publish: tuple[str, ...] = ()  # in the form of the kind "published-ports"
    node_ports: str = ""  # in the form of `parse_node_ports`
    # Node ports that programs of this host listen on. Read once for each run: a resolver's port changes within a second, and a
    # second reading would differ from what the run has just made.
    taken: tuple[str, ...] = ()
    at_boot: bool = False  # whether the host's systemd brings the network back after a restart

    @classmethod
    def from_params(cls, params: Mapping[str, Any], host: Host) -> HostNetworkRequest:
        """Raises Problems with every input error. Reads which of the node ports are taken on this host."""
        problems: list[BallastError] = []
        check_name(params["lab"], "lab", problems)
        if params["state"] == "present":
            check_interfaces(params["address"], "address", problems)
            if not _LINK.fullmatch(params["bridge"]):
                problems.append(MESSAGES.error("instance-link", path="bridge", value=params["bridge"]))
        for number, text in enumerate(params["inside"]):
            check_network(text, f"inside[{number}]", problems)
        for number, row in enumerate(params["routes"]):
            check_network(row["to"], f"routes[{number}].to", problems)
            if row["via"] is not None:
                check_address(row["via"], f"routes[{number}].via", problems)
        _check_published(params["publish"], problems)
        node_ports = parse_node_ports(params["node_ports"], problems)
        Problems.raise_if(problems)
        return cls(
            state=params["state"],
            state_dir=params["state_dir"].rstrip("/"),
            lab=params["lab"],
            bridge=params["bridge"] or "",
            address=params["address"] or "",
            inside=tuple(sorted(params["inside"])),
            routes=tuple(sorted((row["to"], row["via"] or "") for row in params["routes"])),
            publish=tuple(
                f"{row['protocol']} {row['port']} {with_port(row['address'], row['to_port'])}"
                for row in sorted(params["publish"], key=lambda row: (row["protocol"], row["port"], row["address"]))
            ),
            node_ports=node_ports,
            taken=tuple(find_taken(host, node_ports)) if node_ports and params["state"] == "present" else (),
            at_boot=host.is_systemd(),
        )


def _check_published(rows: Sequence[Mapping[str, Any]], problems: list[BallastError]) -> None:
    seen: dict[tuple[bool, str, int], str] = {}
    for number, row in enumerate(rows):
        path = f"publish[{number}]"
        check_address(row["address"], f"{path}.address", problems)
        for name in ("port", "to_port"):
            if not 0 < row[name] < 2**16:
                problems.append(MESSAGES.error("instance-port", path=f"{path}.{name}", value=row[name]))
        first = seen.setdefault((is_ipv6(row["address"]), row["protocol"], row["port"]), path)
        if first != path:
            value = f"{row['port']}/{row['protocol']}"
            problems.append(MESSAGES.error("instance-published-twice", path=path, value=value, first=first))


class HostNetworkEngine(ResourceEngine[HostNetworkRequest]):
    name = "network"
    kinds: Mapping[str, Kind] = {**BASE_KINDS, **NETWORK_KINDS, **NODE_PORT_KINDS, **RESTORE_KINDS}

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
        made = [
            bridge,
            *_forwarding(ctx.host, desired),
            *_masquerade_resources(desired),
            *_published_resources(desired),
            *node_port_resources(
                lab=desired.lab,
                bridge=desired.bridge,
                node_ports=desired.node_ports,
                taken=desired.taken,
                group=_GROUP,
            ),
            *(route(to, via=via, group=_GROUP) for to, via in desired.routes),
        ]
        return made + (restore_resources(desired.state_dir, desired.lab, "network", made) if desired.at_boot else [])

    def require(self, ctx: Context[HostNetworkRequest], state: State) -> None:
        """No other program or lab may use a port that is to be published: its clients would reach the node instead."""
        own = _published_resources(ctx.desired)
        before = {port for table in own for port in _ports_of(state.values.get(table.key, ABSENT))}
        new = [_protocol_and_port(port) for port in ctx.desired.publish if port not in before]
        if not new:
            return
        sockets = (("tcp", ctx.host.tcp_listeners()), ("udp", udp_servers(ctx.host)))
        taken = {
            (protocol, str(socket.port)): "a program listens on it"
            for protocol, listening in sockets
            for socket in listening
            if not ipaddress.ip_address(socket.address).is_loopback
        }
        for kind, family, table in _other_tables(ctx.host, own):
            ports = _ports_of(self.read_value(kind, table, ctx))
            taken.update((_protocol_and_port(port), f"the nftables table {family} {table} uses it") for port in ports)
        Problems.raise_if(
            [
                MESSAGES.error("instance-port-taken", port=f"{port[1]}/{port[0]}", found=taken[port])
                for port in new
                if port in taken
            ]
        )

    def report(self, ctx: Context[HostNetworkRequest]) -> dict[str, object]:
        return {"bridge": ctx.desired.bridge, "address": ctx.desired.address}


def _forwarding(host: Host, desired: HostNetworkRequest) -> list[Resource]:
    """Settings for the IP families of the bridge. A host that forwards IPv6 ignores router advertisements and drops the routes that it
    got from them, except on links with accept_ra=2 (ip-sysctl). So accept_ra is set first."""
    names = []
    if of_family(split(desired.address), ipv6=False):
        names.append(("net.ipv4.ip_forward", 1))
    if of_family(split(desired.address), ipv6=True):
        names += [(_accept_ra(link), 2) for link in _find_advertised(host)]
        names.append(("net.ipv6.conf.all.forwarding", 1))
    return [sysctl_minimum(name, least, holder=desired.state_dir) for name, least in names]


def _find_advertised(host: Host) -> list[str]:
    """Links with a route from a router advertisement that the kernel itself has accepted, and those that an earlier run found: a
    link without its cable has no such route for the moment. systemd-networkd and NetworkManager process advertisements
    themselves, with the kernel's processing off, and continue to do so when the host forwards."""
    rows = ip_json(host, "-6", "route", "show", "proto", "ra") or []
    links = {str(hop["dev"]) for row in rows for hop in row.get("nexthops", [row])}
    links |= {match[1] for match in map(_ACCEPT_RA.fullmatch, list_held_settings(host)) if match}
    return sorted(link for link in links if (host.read(sysctl_path(_accept_ra(link))) or b"0").strip() != b"0")


def _accept_ra(link: str) -> str:
    return f"net/ipv6/conf/{link}/accept_ra"  # the name of a VLAN's link has a dot


def _masquerade_resources(desired: HostNetworkRequest) -> list[Resource]:
    table = join_name(desired.lab)
    return [
        Resource(
            kind=f"masquerade{end}",
            target=table,
            value={"bridge": desired.bridge, "inside": inside},
            title=f"nftables table {family} {table}",
            group=_GROUP,
        )
        for end, family, ipv6 in _FAMILIES
        for inside in [[*of_family(desired.inside, ipv6=ipv6)]]
        if inside
    ]


def _published_resources(desired: HostNetworkRequest) -> list[Resource]:
    table = join_name(desired.lab, PUBLISHED)
    return [
        Resource(
            kind=f"{_PUBLISHED_KIND}{end}",
            target=table,
            value={"bridge": desired.bridge, "ports": ports},
            title=f"nftables table {family} {table}, ports {', '.join(port.split(' ')[1] for port in ports)}",
            group=_GROUP,
        )
        for end, family, ipv6 in _FAMILIES
        for ports in [[*of_family(desired.publish, ipv6=ipv6)]]
        if ports
    ]


def _other_tables(host: Host, own: Sequence[Resource]) -> Iterator[tuple[str, str, str]]:
    """Kind, family and name of other labs' tables of published ports, in the families of the tables `own`."""
    words = {f"{_PUBLISHED_KIND}{end}": family for end, family, _ipv6 in _FAMILIES}
    for table in own:
        family = words[table.kind]
        listed = host.run(["nft", "list", "tables", family], timeout=_SECONDS).stdout.splitlines()
        for name in (line.split(" ")[-1] for line in listed):
            if name.startswith(f"{MARK}-") and name.endswith(f"-{PUBLISHED}") and name != table.target:
                yield table.kind, family, name


def _protocol_and_port(published: str) -> tuple[str, str]:
    protocol, port, _to = published.split(" ")
    return protocol, port


def _ports_of(value: Value) -> set[str]:
    return set(texts(value.get("ports"))) if isinstance(value, Mapping) else set()


ENGINE = HostNetworkEngine()
