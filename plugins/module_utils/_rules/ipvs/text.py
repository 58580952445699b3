# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Renders kernel objects of the ipvs backend as input lines for ipset, ipvsadm and ip."""

from __future__ import annotations

from collections.abc import Iterator

from ..iptables.text import render as render_tables
from ..node_addresses import LINK
from .objects import MASQUERADE, ROUTE, TUNNEL, IpSet, IpvsRules, RealServer, VirtualServer

_SERVICE_OPTIONS = {"TCP": "-t", "UDP": "-u", "SCTP": "--sctp-service"}
_METHOD_OPTIONS = {MASQUERADE: "-m", ROUTE: "-g", TUNNEL: "-i"}


def render(rules: IpvsRules) -> str:
    """All of `rules` as the lines that create them; iptables rules in the form of iptables-save."""
    return "".join(f"{line}\n" for line in _lines(rules)) + render_tables(rules.tables)


def _lines(rules: IpvsRules) -> Iterator[str]:
    for ipset in rules.sets:
        yield f"ipset {creation(ipset)}"
        for element in sorted(ipset.elements):
            yield f"ipset add {ipset.name} {element}"
    for server in rules.servers:
        yield f"ipvsadm -A {definition(server)}"
        for real in server.real_servers:
            yield f"ipvsadm -a {real_definition(server, real)}"
    if rules.link:
        yield f"ip link add {LINK} type dummy"
    for address in rules.addresses:
        yield f"ip address add {with_length(address)} dev {LINK}"


def creation(ipset: IpSet) -> str:
    """The line that creates an ipset, without its elements."""
    if ipset.type == "bitmap:port":
        return f"create {ipset.name} {ipset.type} range 0-65535"
    family = "inet" if ipset.family == 4 else "inet6"
    return f"create {ipset.name} {ipset.type} family {family} hashsize 1024 maxelem {ipset.maxelem}"


def service(server: VirtualServer) -> str:
    """How ipvsadm names a virtual server: `-t 10.96.0.1:443`."""
    return f"{_SERVICE_OPTIONS[server.protocol]} {server.text.rpartition('/')[0]}"


def definition(server: VirtualServer) -> str:
    """A virtual server and its options, as they follow `ipvsadm -A` and `-E`."""
    words = [service(server), f"-s {server.scheduler}"]
    if server.persistent_seconds:
        words.append(f"-p {server.persistent_seconds}")
    if server.flags:
        words.append(f"-b {','.join(server.flags)}")
    return " ".join([*words, *server.other])


def real_definition(server: VirtualServer, real: RealServer) -> str:
    """A real server and its options, as they follow `ipvsadm -a` and `-e`."""
    return f"{service(server)} -r {real.text} {_METHOD_OPTIONS[real.method]} -w {real.weight}"


def with_length(address: str) -> str:
    """`ADDRESS/32` or `ADDRESS/128`."""
    return f"{address}/{128 if ':' in address else 32}"
