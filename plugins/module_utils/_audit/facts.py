# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts about a node besides its Service rules: rules of other programs and backends, settings, connections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Optional

from .._core.host.host import KERNEL_LIMIT, Host
from .._core.host.names import MARK
from .._core.text.errors import BallastError, Unavailable
from .._rules.backend import KUBE_PROXY_TABLE, TAKEOVER_TABLE
from .._rules.iptables.objects import Tables
from .._rules.ipvs.objects import address
from .._rules.nftables.objects import Ruleset
from .._rules.node_addresses import FAMILIES, LINK
from .._rules.record import read_setting
from .dump_reading import DumpReading
from .kernel_reading import KernelReading, TableKey
from .node_reading import NodeReading

SECONDS = 60
_CONNECTIONS = "/proc/net/nf_conntrack"
_SERVICE_TABLES = (KUBE_PROXY_TABLE, MARK, TAKEOVER_TABLE)
# All kernel settings that a backend may need; test_audit.py compares them with the backends.
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
    """A connection in conntrack: its destination, and the source of its replies."""

    destination: str
    port: int
    target: str
    target_port: int
    source: str = field(default="", compare=False)


@dataclass(frozen=True)
class Facts:
    """What an audit reads besides the rules."""

    settings: Mapping[str, Optional[str]] = field(default_factory=dict)  # None: the kernel has no such setting
    ruleset: Ruleset = Ruleset()  # nftables tables of other programs
    service_tables: tuple[tuple[str, str], ...] = ()  # (family, name) of nftables tables for Services
    iptables: Mapping[tuple[str, int], Tables] = field(default_factory=dict)  # by (variant, family)
    link: bool = False  # whether kube-ipvs0 exists
    virtual_servers: tuple[str, ...] = ()  # in the kernel's format
    sets: tuple[str, ...] = ()  # names of ipsets
    connections: Optional[tuple[UdpConnection, ...]] = None
    connections_problem: str = ""  # why they could not be read
    unread: tuple[tuple[str, str], ...] = ()  # (what, why): rules of other programs that could not be read


def facts_of(host: Host, reading: NodeReading, backend: str) -> Facts:
    """The facts that can be read besides the rules of `reading`; empty for compiled rules."""
    if isinstance(reading, KernelReading):
        return read_facts(host, reading, backend)
    return dump_facts(reading) if isinstance(reading, DumpReading) else Facts()


def read_facts(host: Host, reading: KernelReading, backend: str) -> Facts:
    of_services, others = _sort_out(reading.table_keys, reading.own_table)
    tables = {key: reading.table(key) for key in others}
    connections, problem = read_connections(host)
    return Facts(
        settings={name: read_setting(host, name) for name in SETTINGS[backend]},
        ruleset=Ruleset({key: table for key, table in tables.items() if table is not None}),
        service_tables=of_services,
        iptables=reading.iptables,
        link=LINK in dict(reading.links),
        virtual_servers=reading.virtual_servers,
        sets=tuple(sorted(reading.output("ipset", "list", "-n").split())),
        connections=connections,
        connections_problem=problem,
        unread=tuple(reading.unread),
    )


def dump_facts(reading: DumpReading) -> Facts:
    """The facts in a dump. Kernel settings are never in one."""
    dump = reading.dump
    tables = {key: table for family in FAMILIES for key, table in reading.ruleset(family).tables.items()}
    of_services, others = _sort_out(tables, reading.own_table)
    return Facts(
        ruleset=Ruleset({key: tables[key] for key in others}),
        service_tables=of_services,
        iptables=dump.iptables,
        link=LINK in dict(reading.links or ()),
        virtual_servers=tuple(line for line in (dump.servers or "").splitlines() if line.startswith("-A ")),
        sets=tuple(sorted(line.split()[1] for line in (dump.sets or "").splitlines() if line.startswith("create "))),
        connections=None if dump.connections is None else tuple(parse_connections(dump.connections)),
    )


def _sort_out(keys: Iterable[TableKey], own: str) -> tuple[tuple[TableKey, ...], tuple[TableKey, ...]]:
    """Tables for Services that the backend does not use, and tables of other programs."""
    beside = [key for key in keys if key[1] != own]
    of_services = tuple(key for key in beside if key[1] in _SERVICE_TABLES)
    return of_services, tuple(key for key in beside if key[1] not in _SERVICE_TABLES)


def read_connections(host: Host) -> tuple[Optional[tuple[UdpConnection, ...]], str]:
    """The UDP connections of both families and ""; or None and the reason."""
    listed = host.read(_CONNECTIONS, limit=KERNEL_LIMIT)
    if listed is not None:
        return tuple(parse_connections(listed.decode(errors="replace"))), ""
    try:
        text = "".join(
            host.run(
                ["conntrack", "-L", "-p", "udp", "-o", "extended", "-f", family], timeout=SECONDS, limit=KERNEL_LIMIT
            ).stdout
            for family in ("ipv4", "ipv6")
        )
    except Unavailable as error:
        return None, f"{error.text}, and the kernel has no {_CONNECTIONS}"
    except BallastError as error:
        return None, f"{error.text}: {error.found}"
    return tuple(parse_connections(text)), ""


def parse_connections(text: str) -> Iterator[UdpConnection]:
    """Parse the UDP connections of `conntrack -L -o extended` or /proc/net/nf_conntrack. Incomplete lines, which occur as
    the kernel writes while we read, are skipped."""
    for line in text.splitlines():
        if " udp " not in f" {line}":
            continue
        fields = [word.partition("=") for word in line.split() if "=" in word]
        sources = [value for name, _equals, value in fields if name == "src"]
        destinations = [value for name, _equals, value in fields if name == "dst"]
        ports = [value for name, _equals, value in fields if name == "dport"]
        target_ports = [value for name, _equals, value in fields if name == "sport"][1:]
        if len(sources) < 2 or not destinations or not ports or not target_ports:
            continue
        try:
            yield UdpConnection(
                address(destinations[0]), int(ports[0]), address(sources[1]), int(target_ports[0]), address(sources[0])
            )
        except ValueError:
            continue
