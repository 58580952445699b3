# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Node ports on the host's own loopback address: packets go to a node, whose kube-proxy follows the cluster.

    program ── 127.0.0.1:30080 ── DNAT to the node, from the bridge's address ── bridge ── node's rules ── endpoint

For that, packets from a loopback address may leave by the bridge and answers to them may arrive by it (route_localnet). Alone,
this setting would let machines on the bridge reach programs that listen on 127.0.0.1 only (CVE-2020-8558). The table drops
such packets before connection tracking; answers pass, as they still have the bridge's address there. The table is made
before the setting, and removed after it.

A port that a program of this host listens on stays the program's. ::1 is not supported: no packet may leave a host from it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from .._core.engine.context import Context
from .._core.engine.kinds import Kind
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.host.host import Host
from .._core.host.names import MARK, join_name
from .._core.host.sockets import read_listeners, read_udp_servers
from .._core.text.errors import BallastError
from .messages import MESSAGES
from .network import CHANGED, Content, TableKind, texts

LOOPBACK = "127.0.0.1"
TABLE = "node-ports"  # kind of the table, and end of its name
_SETTING = "loopback-route"
_PORTS = re.compile(r"([0-9]{1,5})-([0-9]{1,5})", re.ASCII)
_PROTOCOLS = ("tcp", "udp")
SPEC: dict[str, Any] = {
    "type": "dict",
    "options": {"address": {"type": "str", "required": True}, "ports": {"type": "str", "required": True}},
}


def parse_range(text: str) -> Optional[tuple[int, int]]:
    """First and last port of `30000-32767`; None for text of another form."""
    match = _PORTS.fullmatch(text)
    first, last = (int(match[1]), int(match[2])) if match else (0, 0)
    return (first, last) if 0 < first <= last < 2**16 else None


def parse_node_ports(row: Optional[Mapping[str, Any]], problems: list[BallastError]) -> str:
    """The form of the kind, `10.97.0.11 30000-32767`; "" when no node ports are requested."""
    if not row:
        return ""
    try:
        ipaddress.IPv4Address(row["address"])
    except ValueError:
        shown = {"path": "node_ports.address", "value": row["address"], "wanted": "an IPv4 address"}
        problems.append(MESSAGES.error("instance-address", **shown))
    if parse_range(row["ports"]) is None:
        problems.append(MESSAGES.error("instance-port-range", path="node_ports.ports", value=row["ports"]))
    return f"{row['address']} {row['ports']}"


def node_port_resources(*, lab: str, bridge: str, node_ports: str, taken: Sequence[str], group: str) -> list[Resource]:
    """The table and the bridge's setting; none when `node_ports` is empty. `taken` is in the form of `find_taken`."""
    if not node_ports:
        return []
    address, ports = node_ports.split(" ")
    table = join_name(lab, TABLE)
    value = {"bridge": bridge, "to": address, "ports": ports, "taken": list(taken)}
    return [
        Resource(TABLE, table, value, title=f"nftables table ip {table}", group=group),
        Resource(_SETTING, bridge, {"on": True}, title=f"packets from {LOOPBACK} by {bridge}", group=group),
    ]


def find_taken(host: Host, node_ports: str) -> list[str]:
    """Ports on which programs of this host listen at the loopback address, `tcp 30500` each."""
    first, last = parse_range(node_ports.partition(" ")[2]) or (0, 0)
    servers = (("tcp", read_listeners(host, LOOPBACK)), ("udp", read_udp_servers(host, LOOPBACK)))
    taken = {
        (protocol, server.port) for protocol, sockets in servers for server in sockets if first <= server.port <= last
    }
    return [f"{protocol} {port}" for protocol, port in sorted(taken)]


def _content(value: Mapping[str, Value], _family: str) -> Content:
    """`{bridge, to, ports, taken}`."""
    bridge, to, ports = (str(value[key]) for key in ("bridge", "to", "ports"))
    return Content(
        f"{bridge} {to} {ports}",
        f"""  chain prerouting {{
    type filter hook prerouting priority raw; policy accept;
    iifname "{bridge}" ip daddr 127.0.0.0/8 drop
    iifname "{bridge}" ip saddr 127.0.0.0/8 drop
  }}
  chain output {{
    type nat hook output priority -100; policy accept;
{"".join(_rules(to, ports, texts(value["taken"])))}  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    oifname "{bridge}" ip saddr 127.0.0.0/8 masquerade
  }}
""",
    )


def _rules(to: str, ports: str, taken: list[str]) -> Iterator[str]:
    for row in taken:
        protocol, port = row.split(" ")
        yield f'    ip daddr {LOOPBACK} {protocol} dport {port} return comment "{MARK} {row}"\n'
    for protocol in _PROTOCOLS:
        yield f"    ip daddr {LOOPBACK} {protocol} dport {ports} dnat to {to}\n"


def _parse(comment: str, listed: str) -> Value:
    lines = [line.strip() for line in listed.splitlines()]
    counts = [sum(word in line for line in lines) for word in (" drop", " dnat to ", " masquerade")]
    words = comment.split(" ")
    if counts != [2, len(_PROTOCOLS), 1] or len(words) != 3:
        return CHANGED
    taken = [line.partition(f'return comment "{MARK} ')[2].rstrip('"') for line in lines if " return " in line]
    return {"bridge": words[0], "to": words[1], "ports": words[2], "taken": taken}


class LoopbackRouteKind:
    """`{on}`: whether packets from a loopback address may leave by the link, and answers arrive by it. It ends with the link."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        return {"on": True} if (ctx.host.read(_path(target)) or b"0").strip() == b"1" else ABSENT

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        ctx.host.write_kernel_file(_path(target), "1\n")

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        ctx.host.write_kernel_file(_path(target), "0\n")


def _path(link: str) -> str:
    return f"/proc/sys/net/ipv4/conf/{link}/route_localnet"


NODE_PORT_KINDS: dict[str, Kind] = {TABLE: TableKind(_content, _parse), _SETTING: LoopbackRouteKind()}
