# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kinds of network objects: bridges, network namespaces, veth pairs, routes, masquerading, published ports. Uses ip and nft.

Not pyroute2: each module would import it for 0.1 s, as long as 40 commands of `ip` take. Three nodes need 27 [measured]."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

from .._core.engine.context import Context
from .._core.engine.kinds import Kind, fields
from .._core.engine.ownership import taken_error
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.host.host import Host
from .._core.host.names import MARK
from .._core.text.errors import last_lines
from .._core.text.ip_families import is_ipv6, join, of_family, split
from .._core.text.json_text import parse_json

_SECONDS = 30
INSTANCE_LINK = "eth0"  # the instance's own end of its veth pair
# Inside an instance's namespace. Redirects would pin routes to nodes that may be removed.
NETNS_SYSCTLS = {
    "net.ipv4.ip_forward": "1",
    "net.ipv4.conf.all.accept_redirects": "0",
    "net.ipv4.conf.default.accept_redirects": "0",
}
# The same for IPv6. A host may have disabled it for new links, and a new namespace inherits that.
IPV6_SYSCTLS = {
    "net.ipv6.conf.all.accept_redirects": "0",
    "net.ipv6.conf.all.disable_ipv6": "0",
    "net.ipv6.conf.all.forwarding": "1",
    "net.ipv6.conf.default.accept_redirects": "0",
    "net.ipv6.conf.default.disable_ipv6": "0",
}


def ip_json(host: Host, *words: str) -> Optional[list[dict[str, Any]]]:
    """What `ip -j` prints; None when the object is absent."""
    done = host.run(["ip", "-j", *words], timeout=_SECONDS, check=False)
    if done.status != 0:
        return None
    answer: list[dict[str, Any]] = parse_json(done.stdout or "[]")
    return answer


def _ip(host: Host, *words: str) -> None:
    host.run(["ip", *words], timeout=_SECONDS)


def mounts_at(host: Host, path: str) -> list[str]:
    """Lines of mountinfo for this mount point, see proc_pid_mountinfo(5)."""
    lines = (host.read("/proc/self/mountinfo") or b"").decode().splitlines()
    return [line for line in lines if line.split(" ")[4] == path]


def is_namespace_mount(host: Host, path: str) -> bool:
    """Whether a namespace is bound to the file `path`."""
    return any(" - nsfs " in line for line in mounts_at(host, path))


def _add_address(host: Host, netns: str, address: str, link: str) -> None:
    """Without duplicate address detection, which delays an IPv6 address by a second: only the lab assigns its addresses."""
    at, nodad = (("-n", netns) if netns else ()), (("nodad",) if is_ipv6(address) else ())
    _ip(host, *at, "addr", "add", address, "dev", link, *nodad)


class BridgeKind:
    """`{address, mac, up}`: a bridge that is up and has one address, `10.97.0.1/24`, or one per IP family, separated by a comma.

    Its MAC address is fixed: otherwise a bridge takes the lowest of its ports', which changes when a port is added, and nodes
    attached before send to the old address until their neighbour entry expires, about 45 seconds. It is set when the bridge is
    created: systemd-udevd replaces an address that the kernel chose, some time after the link appears
    (systemd.link(5), MACAddressPolicy).
    """

    exclusive = True

    def read(self, ctx: Context[Any], target: str) -> Value:
        links = ip_json(ctx.host, "-d", "addr", "show", "dev", target)
        if not links or links[0].get("linkinfo", {}).get("info_kind") != "bridge":
            return ABSENT
        mac = str(links[0].get("address", ""))
        return {"address": _addresses(links[0]), "mac": mac, "up": "UP" in links[0]["flags"]}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        settings = fields(after)
        if before == ABSENT:
            _ip(ctx.host, "link", "add", target, "address", str(settings["mac"]), "type", "bridge")
        else:
            _ip(ctx.host, "addr", "flush", "dev", target, "scope", "global")
        for address in split(str(settings["address"])):
            if is_ipv6(address):
                setting = f"net/ipv6/conf/{target}/disable_ipv6=0"
                ctx.host.run(["sysctl", "-q", "-w", setting], timeout=_SECONDS)
            _add_address(ctx.host, "", address, target)
        _ip(ctx.host, "link", "set", target, "address", str(settings["mac"]), "up")

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        _ip(ctx.host, "link", "del", target)


class NetnsKind:
    """`{sysctls, lo}`: a named network namespace with these settings inside, and whether its loopback link is up.

    A new namespace may have all the settings already: it inherits those of IPv4 from the host.
    """

    exclusive = True

    def read(self, ctx: Context[Any], target: str) -> Value:
        if not is_namespace_mount(ctx.host, netns_path(target)):
            return ABSENT if ctx.host.stat(netns_path(target)) is None else {"sysctls": {}, "lo": False}
        sysctls = _read_sysctls(ctx.host, target, NETNS_SYSCTLS)
        loopback = ip_json(ctx.host, "-n", target, "link", "show", "dev", "lo")
        return {"sysctls": sysctls, "lo": any("UP" in link["flags"] for link in loopback or [])}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        if not is_namespace_mount(ctx.host, netns_path(target)):
            ctx.host.remove(netns_path(target))  # a leftover of a killed run or a restart of the host
            _ip(ctx.host, "netns", "add", target)
        _ip(ctx.host, "-n", target, "link", "set", "lo", "up")
        _write_sysctls(ctx.host, target, fields(after)["sysctls"])

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        _ip(ctx.host, "netns", "del", target)


class NetnsIpv6Kind:
    """`{sysctls}`: the IPv6 settings inside a named network namespace, which end with it."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        if not is_namespace_mount(ctx.host, netns_path(target)):
            return ABSENT
        return {"sysctls": _read_sysctls(ctx.host, target, IPV6_SYSCTLS)}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        _write_sysctls(ctx.host, target, fields(after)["sysctls"])

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        """Nothing: the namespace is removed next."""


def _read_sysctls(host: Host, netns: str, names: Mapping[str, str]) -> dict[str, Value]:
    argv = ["nsenter", f"--net={netns_path(netns)}", "--", "sysctl", "-n", *sorted(names)]
    return dict(zip(sorted(names), host.run(argv, timeout=_SECONDS).stdout.split()))


def _write_sysctls(host: Host, netns: str, sysctls: Value) -> None:
    settings = [f"{name}={value}" for name, value in sorted(fields(sysctls).items())]
    host.run(["nsenter", f"--net={netns_path(netns)}", "--", "sysctl", "-q", "-w", *settings], timeout=_SECONDS)


class VethKind:
    """`{bridge, mac, address, gateway}`, the last two one per IP family, separated by a comma. The target is `LINK NETNS`: the
    host's end, which is on the bridge, and the namespace of the other end."""

    exclusive = True

    def read(self, ctx: Context[Any], target: str) -> Value:
        link, netns = target.split(" ")
        outer = ip_json(ctx.host, "link", "show", "dev", link)
        if not outer:
            return ABSENT
        inner = ip_json(ctx.host, "-n", netns, "addr", "show", "dev", INSTANCE_LINK)
        if not inner or inner[0].get("link_index") != outer[0]["ifindex"]:
            return {"bridge": outer[0].get("master", ""), "mac": "", "address": "", "gateway": ""}
        address = _addresses(inner[0])
        families = [family for family, ipv6 in (((), False), (("-6",), True)) if of_family(split(address), ipv6=ipv6)]
        routes = [ip_json(ctx.host, *family, "-n", netns, "route", "show", "default") for family in families]
        return {
            "bridge": outer[0].get("master", ""),
            "mac": inner[0]["address"],
            "address": address,
            "gateway": join(rows[0].get("gateway", "") for rows in routes if rows),
        }

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        link, netns = target.split(" ")
        settings = {name: str(part) for name, part in fields(after).items()}
        if before != ABSENT:
            _ip(ctx.host, "link", "del", link)
        peer = ("peer", "name", INSTANCE_LINK, "address", settings["mac"], "netns", netns)
        _ip(ctx.host, "link", "add", link, "type", "veth", *peer)
        _ip(ctx.host, "link", "set", link, "master", settings["bridge"], "up")
        for address in split(settings["address"]):
            _add_address(ctx.host, netns, address, INSTANCE_LINK)
        _ip(ctx.host, "-n", netns, "link", "set", INSTANCE_LINK, "up")
        for gateway in split(settings["gateway"]):
            _ip(ctx.host, "-n", netns, "route", "add", "default", "via", gateway)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        _ip(ctx.host, "link", "del", target.split(" ")[0])


class RouteKind:
    """`{via}`: the host's route to a network. With an empty `via` packets are refused, so that they do not leave the host."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        routes = ip_json(ctx.host, *(("-6",) if is_ipv6(target) else ()), "route", "show", "exact", target)
        return {"via": routes[0].get("gateway", "")} if routes else ABSENT

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        via = str(fields(after)["via"])
        _ip(ctx.host, "route", "replace", *([target, "via", via] if via else ["unreachable", target]))

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        _ip(ctx.host, "route", "del", target)


CHANGED: Value = {"ruleset": "changed by another program"}


class Content(NamedTuple):
    """The content of a table: its comment without the mark, and its chains."""

    comment: str
    chains: str


@dataclass(frozen=True)
class TableKind:
    """An nftables table. Its comments hold its values, as the form in which nft prints rules depends on its version.

    `content` writes a value for a family of nftables; `parse` reads it from the table's comment and everything that nft lists.
    """

    content: Callable[[Mapping[str, Value], str], Content]
    parse: Callable[[str, str], Value]
    family: str = "ip"
    exclusive = True

    def read(self, ctx: Context[Any], target: str) -> Value:
        done = ctx.host.run(["nft", "list", "table", self.family, target], timeout=_SECONDS, check=False)
        if done.status != 0:
            return ABSENT
        marks = [line.split('"')[1] for line in done.stdout.splitlines() if line.strip().startswith("comment")]
        return self.parse(marks[0].removeprefix(f"{MARK} "), done.stdout) if len(marks) == 1 else CHANGED

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        self._require_mark(ctx.host, target)
        content = self.content(fields(after), self.family)
        text = f"""table {self.family} {target}
delete table {self.family} {target}
table {self.family} {target} {{
  comment "{MARK} {content.comment}"
{content.chains}}}
"""
        ctx.host.run(["nft", "-f", "-"], stdin=text.encode(), timeout=_SECONDS)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        self._require_mark(ctx.host, target)
        ctx.host.run(["nft", "delete", "table", self.family, target], timeout=_SECONDS)

    def _require_mark(self, host: Host, target: str) -> None:
        """HostError where a table of this name lacks our comment: another program made it."""
        done = host.run(["nft", "list", "table", self.family, target], timeout=_SECONDS, check=False)
        if done.status == 0 and f'comment "{MARK} ' not in done.stdout:
            raise taken_error(f"the nftables table {self.family} {target}", last_lines(done.stdout))


def texts(value: Value) -> list[str]:
    """A list of texts; empty for any other value."""
    return [str(text) for text in value] if isinstance(value, (list, tuple)) else []


def _masquerade(value: Mapping[str, Value], family: str) -> Content:
    """`{inside, bridge}`: masquerades the lab's networks behind this host's address."""
    bridge, inside = str(value["bridge"]), texts(value["inside"])
    networks = ", ".join(inside)
    return Content(
        " ".join([bridge, *inside]),
        f"""  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    {family} saddr {{ {networks} }} {family} daddr != {{ {networks} }} oifname != "{bridge}" masquerade
  }}
""",
    )


def _parse_masquerade(comment: str, listed: str) -> Value:
    bridge, _space, inside = comment.partition(" ")
    return {"bridge": bridge, "inside": inside.split(" ")} if "masquerade" in listed else CHANGED


def _publish(value: Mapping[str, Value], family: str) -> Content:
    """`{bridge, ports}`: ports of this host that lead to a node, `tcp 8080 10.97.0.11:30080` each. Not on loopback: a node cannot
    answer packets from 127.0.0.1. Nodes and pods that use such a port reach the host itself."""
    loopback = {"ip": "127.0.0.0/8", "ip6": "::1"}[family]
    bridge = str(value["bridge"])
    rules = "".join(f"    fib daddr type local {_publishing(port)}\n" for port in texts(value["ports"]))
    return Content(
        bridge,
        f"""  chain prerouting {{
    type nat hook prerouting priority dstnat; policy accept;
    iifname "{bridge}" return
{rules}  }}
  chain output {{
    type nat hook output priority -100; policy accept;
    {family} daddr {loopback} return
{rules}  }}
""",
    )


def _parse_published(comment: str, listed: str) -> Value:
    lines = [line for line in listed.splitlines() if " dnat to " in line]
    ports = [line.partition(f'comment "{MARK} ')[2].rstrip('"') for line in lines]
    half = ports[: len(ports) // 2]
    return {"bridge": comment, "ports": half} if ports == half * 2 else CHANGED  # both chains have all of them


def _publishing(port: str) -> str:
    protocol, number, to = port.split(" ")
    return f'{protocol} dport {number} dnat to {to} comment "{MARK} {port}"'


def _addresses(link: Mapping[str, Any]) -> str:
    """The first IPv4 and the first global IPv6 address, without those from router advertisements."""
    rows = [row for row in link.get("addr_info", []) if not row.get("dynamic")]
    of_each = (
        [row for row in rows if row["family"] == "inet"],
        [row for row in rows if row["family"] == "inet6" and row.get("scope") == "global"],
    )
    return join(f"{known[0]['local']}/{known[0]['prefixlen']}" for known in of_each if known)


def netns_path(name: str) -> str:
    """The file of a named network namespace, as ip-netns(8) makes it."""
    return f"/run/netns/{name}"


def mac_address(seed: str) -> str:
    """A locally administered MAC address that stays the same when the link is made again, so that no neighbour entry is stale."""
    octets = hashlib.sha256(seed.encode()).digest()[:5]
    return ":".join(f"{octet:02x}" for octet in (0x02, *octets))


NETWORK_KINDS: dict[str, Kind] = {
    "bridge": BridgeKind(),
    "netns": NetnsKind(),
    "netns-ipv6": NetnsIpv6Kind(),
    "veth": VethKind(),
    "route": RouteKind(),
    "masquerade": TableKind(_masquerade, _parse_masquerade),
    "masquerade-ipv6": TableKind(_masquerade, _parse_masquerade, "ip6"),
    "published-ports": TableKind(_publish, _parse_published),
    "published-ports-ipv6": TableKind(_publish, _parse_published, "ip6"),
}


def route(to: str, *, via: str, group: str) -> Resource:
    """A route to the network `to` as a resource. Without `via` the resource is that there is none."""
    title = f"route to {to} via {via}" if via else f"no route to {to}"
    return Resource(kind="route", target=to, value={"via": via}, title=title, group=group)
