# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kinds of network objects: bridges, network namespaces, veth pairs, routes, masquerading. All by iproute2 and nft."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from .._core.host import Host
from .._core.kinds import Kind, fields
from .._core.names import MARK
from .._core.plan import ABSENT, Resource, Value

_SECONDS = 30
INSTANCE_LINK = "eth0"  # the instance's own end of its veth pair
# Inside an instance's namespace. Redirects would pin routes to neighbours that may be removed.
NETNS_SYSCTLS = {
    "net.ipv4.ip_forward": "1",
    "net.ipv4.conf.all.accept_redirects": "0",
    "net.ipv4.conf.default.accept_redirects": "0",
}


def ip_json(host: Host, *words: str) -> Optional[list[dict[str, Any]]]:
    """What `ip -j` answers, None when the object is absent."""
    done = host.run(["ip", "-j", *words], timeout=_SECONDS, check=False)
    if done.status != 0:
        return None
    answer: list[dict[str, Any]] = json.loads(done.stdout or "[]")
    return answer


def _ip(host: Host, *words: str) -> None:
    host.run(["ip", *words], timeout=_SECONDS)


def is_namespace_mount(host: Host, path: str) -> bool:
    """Whether a namespace is bound to the file `path`."""
    lines = (host.read("/proc/self/mountinfo") or b"").decode().splitlines()
    return any(row[4] == path and " - nsfs " in line for line, row in ((line, line.split(" ")) for line in lines))


class BridgeKind:
    """`{address, mac, up}`: a bridge that is up and carries one address, `10.97.0.1/24`.

    Its link address is set: a bridge without takes the lowest of its ports', so that it changes when a port is added, and
    whoever was attached before sends to the old one until that is no longer kept for a neighbour's, about 45 seconds.
    """

    def read(self, host: Host, target: str) -> Value:
        found = ip_json(host, "-d", "addr", "show", "dev", target)
        if not found or found[0].get("linkinfo", {}).get("info_kind") != "bridge":
            return ABSENT
        mac = str(found[0].get("address", ""))
        return {"address": _first_address(found[0]), "mac": mac, "up": "UP" in found[0]["flags"]}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        wanted = fields(after)
        if before == ABSENT:
            _ip(host, "link", "add", target, "type", "bridge")
        else:
            _ip(host, "addr", "flush", "dev", target)
        _ip(host, "addr", "add", str(wanted["address"]), "dev", target)
        _ip(host, "link", "set", target, "address", str(wanted["mac"]), "up")

    def remove(self, host: Host, target: str, before: Value) -> None:
        _ip(host, "link", "del", target)


class NetnsKind:
    """`{sysctls, lo}`: a named network namespace with these settings inside, and whether its loopback link is up.

    A new namespace may have all the settings already, as it takes those of IPv4 from the host.
    """

    def read(self, host: Host, target: str) -> Value:
        if not is_namespace_mount(host, netns_path(target)):
            return ABSENT if host.stat(netns_path(target)) is None else {"sysctls": {}, "lo": False}
        names = sorted(NETNS_SYSCTLS)
        argv = ["nsenter", f"--net={netns_path(target)}", "--", "sysctl", "-n", *names]
        values = host.run(argv, timeout=_SECONDS).stdout.split()
        loopback = ip_json(host, "-n", target, "link", "show", "dev", "lo")
        return {"sysctls": dict(zip(names, values)), "lo": any("UP" in link["flags"] for link in loopback or [])}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        if not is_namespace_mount(host, netns_path(target)):
            host.remove(netns_path(target))  # what a killed run or a restart of the host left
            _ip(host, "netns", "add", target)
        _ip(host, "-n", target, "link", "set", "lo", "up")
        settings = [f"{name}={value}" for name, value in sorted(fields(fields(after)["sysctls"]).items())]
        host.run(["nsenter", f"--net={netns_path(target)}", "--", "sysctl", "-q", "-w", *settings], timeout=_SECONDS)

    def remove(self, host: Host, target: str, before: Value) -> None:
        _ip(host, "netns", "del", target)


class VethKind:
    """`{bridge, mac, address, gateway}`. The target is `LINK NETNS`: the host's end, which is on the bridge, and the
    namespace of the other end."""

    def read(self, host: Host, target: str) -> Value:
        link, netns = target.split(" ")
        outer = ip_json(host, "link", "show", "dev", link)
        if not outer:
            return ABSENT
        inner = ip_json(host, "-n", netns, "addr", "show", "dev", INSTANCE_LINK)
        if not inner or inner[0].get("link_index") != outer[0]["ifindex"]:
            return {"bridge": outer[0].get("master", ""), "mac": "", "address": "", "gateway": ""}
        routes = ip_json(host, "-n", netns, "route", "show", "default")
        return {
            "bridge": outer[0].get("master", ""),
            "mac": inner[0]["address"],
            "address": _first_address(inner[0]),
            "gateway": routes[0].get("gateway", "") if routes else "",
        }

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        link, netns = target.split(" ")
        wanted = {name: str(part) for name, part in fields(after).items()}
        if before != ABSENT:
            _ip(host, "link", "del", link)
        peer = ("peer", "name", INSTANCE_LINK, "address", wanted["mac"], "netns", netns)
        _ip(host, "link", "add", link, "type", "veth", *peer)
        _ip(host, "link", "set", link, "master", wanted["bridge"], "up")
        _ip(host, "-n", netns, "addr", "add", wanted["address"], "dev", INSTANCE_LINK)
        _ip(host, "-n", netns, "link", "set", INSTANCE_LINK, "up")
        _ip(host, "-n", netns, "route", "add", "default", "via", wanted["gateway"])

    def remove(self, host: Host, target: str, before: Value) -> None:
        _ip(host, "link", "del", target.split(" ")[0])


class RouteKind:
    """`{via}`: the host's route to a network."""

    def read(self, host: Host, target: str) -> Value:
        found = ip_json(host, "route", "show", "exact", target)
        return {"via": found[0].get("gateway", "")} if found else ABSENT

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        _ip(host, "route", "replace", target, "via", str(fields(after)["via"]))

    def remove(self, host: Host, target: str, before: Value) -> None:
        _ip(host, "route", "del", target)


class MasqueradeKind:
    """`{inside, bridge}`: an nftables table of ours that lets the lab's networks reach the world as this host.

    The table's comment is a digest of its rules; nft prints rules in a form that changes with its version.
    """

    def read(self, host: Host, target: str) -> Value:
        done = host.run(["nft", "list", "table", "ip", target], timeout=_SECONDS, check=False)
        if done.status != 0:
            return ABSENT
        marks = [line.split('"')[1] for line in done.stdout.splitlines() if line.strip().startswith("comment")]
        if len(marks) != 1 or "masquerade" not in done.stdout:
            return {"ruleset": "changed by another program"}
        bridge, _space, inside = marks[0].removeprefix(f"{MARK} ").partition(" ")
        return {"bridge": bridge, "inside": inside.split(" ")}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        host.run(["nft", "-f", "-"], stdin=_masquerade(target, fields(after)).encode(), timeout=_SECONDS)

    def remove(self, host: Host, target: str, before: Value) -> None:
        host.run(["nft", "delete", "table", "ip", target], timeout=_SECONDS)


def _masquerade(table: str, value: Mapping[str, Value]) -> str:
    inside, bridge = value["inside"], value["bridge"]
    if not isinstance(inside, Sequence):
        raise TypeError(inside)
    networks = ", ".join(str(network) for network in inside)
    mark = " ".join([MARK, str(bridge), *(str(network) for network in inside)])
    return f"""table ip {table}
delete table ip {table}
table ip {table} {{
  comment "{mark}"
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {{ {networks} }} ip daddr != {{ {networks} }} oifname != "{bridge}" masquerade
  }}
}}
"""


def _first_address(link: Mapping[str, Any]) -> str:
    found = [row for row in link.get("addr_info", []) if row["family"] == "inet"]
    return f"{found[0]['local']}/{found[0]['prefixlen']}" if found else ""


def netns_path(name: str) -> str:
    return f"/run/netns/{name}"


def mac_address(seed: str) -> str:
    """A locally administered address that stays the same when the link is made anew, so that no neighbour's cache
    holds an old one."""
    octets = hashlib.sha256(seed.encode()).digest()[:5]
    return ":".join(f"{octet:02x}" for octet in (0x02, *octets))


NETWORK_KINDS: dict[str, Kind] = {
    "bridge": BridgeKind(),
    "netns": NetnsKind(),
    "veth": VethKind(),
    "route": RouteKind(),
    "masquerade": MasqueradeKind(),
}


def route(to: str, *, via: str, group: str) -> Resource:
    return Resource(kind="route", target=to, value={"via": via}, title=f"route to {to} via {via}", group=group)
