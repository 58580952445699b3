# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Silences connections through ipvs for the moment in which their virtual servers do not exist.

Without virtual servers ip_vs leaves the netfilter hooks, and each of the following ends a connection (seen on Linux 6.1, 16
of 16 within 0.3 seconds):

    a client's packet to a Service's address reaches this node's own TCP stack, which replies with a reset
    a pod's reply reaches the client with the pod's own address, and the client replies with a reset
    a packet of a client on this node leaves by another link than it was masqueraded for, so conntrack forgets the
    connection (nf_nat_oif_changed)

Rules drop all three, and the sender retransmits. They are part of the takeover table, so they are removed with it at the
latest, even after a kill. They come after ip_vs in each hook (priorities 98 to 100, in output -98), so they never see a
packet that it handles.
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
    """Drop what ip_vs would have translated for these virtual servers. No effect in a family without a takeover table."""
    for family, name in NFT_FAMILIES.items():
        chosen = [server for server in servers if not server.mark and (":" in server.address) == (family == 6)]
        if chosen and has_table(host, name, TAKEOVER_TABLE):
            _run(host, [*_clear(name), *_drop(name, chosen)])


def unsilence(host: Host) -> None:
    """Undo `silence`. No effect in a family without a takeover table."""
    for name in NFT_FAMILIES.values():
        if has_table(host, name, TAKEOVER_TABLE):
            _run(host, _clear(name))


def _drop(family: str, servers: Sequence[VirtualServer]) -> Iterator[str]:
    table, kind = f"{family} {TAKEOVER_TABLE}", "ipv4_addr" if family == "ip" else "ipv6_addr"
    yield from _chains(table)
    addresses = ", ".join(sorted({server.address for server in servers}))
    yield f"add set {table} ipvs-addresses {{ type {kind}; elements = {{ {addresses} }}; }}"
    for hook in _HOOKS:
        # Replies to connections that the takeover table has translated come from the same pod addresses.
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
    """Adding an object before deleting it makes the deletion succeed whether or not it existed."""
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
