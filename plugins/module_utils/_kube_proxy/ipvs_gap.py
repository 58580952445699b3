# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Silences connections through ipvs for the moment in which their virtual servers are gone.

Without virtual servers ip_vs leaves the netfilter hooks, and then each of these ends a connection (seen on Linux 6.1, 16 of 16 within
0.3 seconds):

    what a client sends to a Service's address comes to this node's own TCP, which answers with a reset
    what a pod answers reaches the client with the pod's own address, and the client answers with a reset
    what a client on this node sends leaves by another link than it was masqueraded for, so conntrack forgets it (nf_nat_oif_changed)

Rules drop all three, and the sender repeats the packet. They are part of the takeover table, so they go with it at the latest, also
after a kill. They come after ip_vs at each hook (priorities 98 to 100, of output -98), so that no packet that it handles meets them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .._core.host.host import Host
from .._rules.backend import NFT_FAMILIES, TAKEOVER_TABLE
from .._rules.ipvs.objects import VirtualServer
from .._rules.nftables.presence import has_table

_AFTER_IPVS = 110
_HOOKS = ("input", "forward", "output")
_PROTOCOLS = ("tcp", "udp", "sctp")
_SECONDS = 60


def silence(host: Host, servers: Sequence[VirtualServer]) -> None:
    """Drop what ip_vs would have translated for these virtual servers. No effect for a family without a takeover table."""
    for family, name in NFT_FAMILIES.items():
        chosen = [server for server in servers if not server.mark and (":" in server.address) == (family == 6)]
        if chosen and has_table(host, name, TAKEOVER_TABLE):
            _run(host, [*_clear(name), *_drop(name, chosen)])


def unsilence(host: Host) -> None:
    for name in NFT_FAMILIES.values():
        if has_table(host, name, TAKEOVER_TABLE):
            _run(host, _clear(name))


def _drop(family: str, servers: Sequence[VirtualServer]) -> Iterator[str]:
    table, kind = f"{family} {TAKEOVER_TABLE}", "ipv4_addr" if family == "ip" else "ipv6_addr"
    yield from _chains(table)
    addresses = ", ".join(sorted({server.address for server in servers}))
    yield f"add set {table} ipvs-addresses {{ type {kind}; elements = {{ {addresses} }}; }}"
    for hook in _HOOKS:
        # Those that the takeover table has translated are answered from the same addresses of pods.
        yield f"add rule {table} ipvs-{hook} ct status dnat accept"
        yield (
            f"add rule {table} ipvs-{hook} ct direction reply ct original {family} daddr @ipvs-addresses"
            f" {family} saddr != @ipvs-addresses drop"
        )
    for protocol in _PROTOCOLS:
        targets = sorted(
            f"{server.address} . {server.port}" for server in servers if server.protocol == protocol.upper()
        )
        if targets:
            elements = ", ".join(targets)
            yield f"add set {table} ipvs-{protocol} {{ type {kind} . inet_service; elements = {{ {elements} }}; }}"
            for hook in _HOOKS:
                yield f"add rule {table} ipvs-{hook} {family} daddr . {protocol} dport @ipvs-{protocol} drop"


def _clear(family: str) -> Iterator[str]:
    """Adding what is to be deleted makes the deletion succeed whether or not it is there."""
    table, kind = f"{family} {TAKEOVER_TABLE}", "ipv4_addr" if family == "ip" else "ipv6_addr"
    yield from _chains(table)
    for hook in _HOOKS:
        yield f"flush chain {table} ipvs-{hook}"
        yield f"delete chain {table} ipvs-{hook}"
    for name, of in (("addresses", kind), *((protocol, f"{kind} . inet_service") for protocol in _PROTOCOLS)):
        yield f"add set {table} ipvs-{name} {{ type {of}; }}"
        yield f"delete set {table} ipvs-{name}"


def _chains(table: str) -> Iterator[str]:
    for hook in _HOOKS:
        yield f"add chain {table} ipvs-{hook} {{ type filter hook {hook} priority {_AFTER_IPVS}; policy accept; }}"


def _run(host: Host, lines: Iterable[str]) -> None:
    host.run(["nft", "-f", "-"], stdin="".join(f"{line}\n" for line in lines).encode(), timeout=_SECONDS)
