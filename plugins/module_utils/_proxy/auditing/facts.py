# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What else a node has that bears on Services, read once: rules of other programs, other backends, settings, connections."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Optional

from ..._core.errors import BallastError, Unavailable
from ..._core.host import Host
from ..._core.names import MARK
from ..backends import BRIDGE_TABLE, KUBE_PROXY_TABLE
from ..dump import parse_nftables
from ..iptables import restore
from ..iptables.objects import BUILT_IN, Tables
from ..ipvs.objects import address
from ..nftables.json_form import parse_json
from ..nftables.objects import Ruleset, Table
from ..record import read_setting
from ..surroundings import LINK, parse_links

SECONDS = 60
_CONNECTIONS = "/proc/net/nf_conntrack"
_VIRTUAL_SERVERS = "/proc/net/ip_vs"
_TABLE = re.compile(r"table (\S+) (\S+) \{", re.ASCII)
_HEADS = ("Prot", "IP", "->")  # of lines of _VIRTUAL_SERVERS that have no server
_SERVICE_TABLES = (KUBE_PROXY_TABLE, MARK, BRIDGE_TABLE)
_PASSED_FAMILIES = ("ip", "ip6", "inet")
# Every kernel setting that a backend may need; test_audit.py holds it to what they say.
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "nftables": (),
    "iptables": ("net.ipv4.conf.all.route_localnet",),
    "ipvs": (
        "net.ipv4.vs.conntrack",
        "net.ipv4.vs.conn_reuse_mode",
        "net.ipv4.vs.expire_nodest_conn",
        "net.ipv4.vs.expire_quiescent_template",
        "net.ipv4.ip_forward",
        "net.ipv4.conf.all.arp_ignore",
        "net.ipv4.conf.all.arp_announce",
    ),
}


@dataclass(frozen=True)
class UdpConnection:
    """What conntrack keeps of one: where it was sent, and who answers."""

    destination: str
    port: int
    target: str
    source: str = field(default="", compare=False)


@dataclass(frozen=True)
class Facts:
    """What an audit looks at besides the rules. Empty where only a dump is there."""

    settings: Mapping[str, Optional[str]] = field(default_factory=dict)  # None: the kernel has no such setting
    ruleset: Ruleset = Ruleset()  # tables of nftables that are neither of Services nor of iptables
    service_tables: tuple[tuple[str, str], ...] = ()  # family and name of those that are of Services
    iptables: Mapping[tuple[str, int], Tables] = field(default_factory=dict)  # by variant and family
    link: bool = False  # whether kube-ipvs0 is there
    virtual_servers: tuple[str, ...] = ()  # as the kernel lists them
    sets: tuple[str, ...] = ()  # names of ipsets
    connections: Optional[tuple[UdpConnection, ...]] = None
    connections_problem: str = ""  # why they are None; "" where nobody asked
    unread: tuple[tuple[str, str], ...] = ()  # what of other programs could not be read, and why


def read_facts(host: Host, backend: str) -> Facts:
    unread: list[tuple[str, str]] = []
    iptables = read_iptables(host, unread)
    service_tables, ruleset = _nftables(host, frozenset(iptables), unread)
    connections, problem = read_connections(host)
    return Facts(
        settings={name: read_setting(host, name) for name in SETTINGS[backend]},
        ruleset=ruleset,
        service_tables=service_tables,
        iptables=iptables,
        link=any(name == LINK for name, _found in parse_links(_output(host, "ip", "-j", "address", "show"))),
        virtual_servers=_virtual_servers(host),
        sets=tuple(sorted(_output(host, "ipset", "list", "-n").split())),
        connections=connections,
        connections_problem=problem,
        unread=tuple(unread),
    )


def dump_facts(text: str, backend: str) -> Facts:
    """What a dump says besides the rules that are audited; of iptables and ipvs those have all of it already."""
    if backend != "nftables":
        return Facts()
    tables = parse_nftables(text).tables.items()
    return Facts(ruleset=Ruleset({key: table for key, table in tables if key[1] not in _SERVICE_TABLES}))


def _output(host: Host, *argv: str) -> str:
    """ "" where there is no such tool: then nothing was made with it."""
    try:
        return host.run(argv, timeout=SECONDS).stdout
    except Unavailable:
        return ""


def read_iptables(host: Host, unread: list[tuple[str, str]]) -> dict[tuple[str, int], Tables]:
    try:
        variants = restore.variants(host)
    except Unavailable:
        return {}
    found = {}
    for variant in variants:
        for family in (4, 6):
            try:
                found[variant, family] = restore.read(host, family=family, variant=variant)
            except Unavailable:
                continue
            except BallastError as error:
                unread.append((f"iptables rules of IPv{family}, variant {variant}", error.text))
    return found


def _nftables(
    host: Host, read_by_iptables: frozenset[tuple[str, int]], unread: list[tuple[str, str]]
) -> tuple[tuple[tuple[str, str], ...], Ruleset]:
    """Those of iptables are read by iptables, if it can. nft is asked for chains, under the names of all tables: asked for
    tables, nft 1.0.6 fetches every element of each of them first."""
    of_services: list[tuple[str, str]] = []
    tables: dict[tuple[str, str], Table] = {}
    for line in _output(host, "nft", "list", "chains").splitlines():
        match = _TABLE.fullmatch(line.strip())
        if not match or match[1] not in _PASSED_FAMILIES:
            continue
        key = (match[1], match[2])
        is_iptables = match[2] in BUILT_IN and (restore.NFT, 6 if match[1] == "ip6" else 4) in read_by_iptables
        if match[2] in _SERVICE_TABLES:
            of_services.append(key)
        elif match[1] == "inet" or not is_iptables:
            try:
                tables.update(parse_json(_output(host, "nft", "-j", "list", "table", *key)).tables)
            except BallastError as error:
                unread.append((f"table {' '.join(key)}", error.text))
    return tuple(of_services), Ruleset(tables)


def _virtual_servers(host: Host) -> tuple[str, ...]:
    lines = (host.read(_VIRTUAL_SERVERS) or b"").decode(errors="replace").splitlines()
    return tuple(line.strip() for line in lines if line.strip() and line.split()[0] not in _HEADS)


def read_connections(host: Host) -> tuple[Optional[tuple[UdpConnection, ...]], str]:
    """The UDP ones of both families; or None and why not."""
    listed = host.read(_CONNECTIONS)
    if listed is not None:
        return tuple(parse_connections(listed.decode(errors="replace"))), ""
    try:
        text = "".join(
            host.run(["conntrack", "-L", "-p", "udp", "-o", "extended", "-f", family], timeout=SECONDS).stdout
            for family in ("ipv4", "ipv6")
        )
    except Unavailable as error:
        return None, f"{error.text}, and the kernel has no {_CONNECTIONS}"
    except BallastError as error:
        return None, f"{error.text}: {error.found}"
    return tuple(parse_connections(text)), ""


def parse_connections(text: str) -> Iterator[UdpConnection]:
    """The UDP ones of `conntrack -L -o extended` or /proc/net/nf_conntrack. A line that is cut short (the kernel writes
    while we read) is passed over."""
    for line in text.splitlines():
        if " udp " not in line:
            continue
        fields = [word.partition("=") for word in line.split() if "=" in word]
        sources = [value for name, _equals, value in fields if name == "src"]
        destinations = [value for name, _equals, value in fields if name == "dst"]
        ports = [value for name, _equals, value in fields if name == "dport"]
        if len(sources) < 2 or not destinations or not ports or not ports[0].isdecimal():
            continue
        try:
            yield UdpConnection(address(destinations[0]), int(ports[0]), address(sources[1]), address(sources[0]))
        except ValueError:
            continue
