# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps connections through ipvs while a node's kube-proxy leaves that mode, and until they end.

ip_vs keeps a connection as long as its virtual server exists. When kube-proxy starts in mode nftables, it first removes all
virtual servers, including other programs', and the link with the addresses of Services (pkg/proxy/ipvs/cleanup.go). It
leaves them only if `modprobe ip_vs` fails. In mode iptables it always leaves them.

    hold     before kube-proxy is replaced: the virtual servers with open connections are recorded. The link is renamed, so
             that kube-proxy does not find it. ip_vs is set to drop packets of a connection without a virtual server
             (expire_nodest_conn 0) instead of forgetting the connection, and rules drop them while there is no virtual
             server at all (ipvs_gap.py)
    restore  while kube-proxy starts: virtual servers that are gone are created again. ip_vs then finds the former real
             servers with their connections (ip_vs_trash_get_dest). Senders retransmit the packets dropped meanwhile
    settle   once it runs: the link gets its name back. Weight 0 keeps new connections away, whatever the new rules send there
    give_back  before kube-proxy returns to ipvs: everything is as `hold` found it

What is left is recorded (drain_record.py), for a later clean-up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Optional

from .._core.host.host import KERNEL_LIMIT, Host
from .._core.text.errors import CommandFailed, Unavailable
from .._rules.iptables.objects import Tables
from .._rules.ipvs.apply import CONNECTIONS as LISTING
from .._rules.ipvs.objects import VirtualServer
from .._rules.ipvs.parse import Key, parse, parse_listing, parse_servers
from .._rules.ipvs.plan import select_own
from .._rules.ipvs.text import definition, real_definition
from .._rules.node_addresses import HIDDEN_LINK, LINK
from .._rules.record import SettingChange, change_setting, read_setting
from . import ipvs_gap
from .drain_record import Draining, count_open, read_draining, write_draining
from .messages import MESSAGES

EXPIRE = "net.ipv4.vs.expire_nodest_conn"
_SECONDS = 60


# The change


def hold(host: Host, *, drain_seconds: float) -> Optional[Draining]:
    """Call before a kube-proxy starts in another mode than ipvs. None if there is nothing to keep, or no ipvsadm to do it.

    A deadline that is recorded already is kept: an earlier change left connections.
    """
    if not host.read(LISTING, limit=KERNEL_LIMIT):
        return None
    try:
        listed = host.run(["ipvsadm", "-S", "-n"], timeout=_SECONDS, limit=KERNEL_LIMIT).stdout
    except Unavailable:
        return None
    known = read_draining(host)
    blocks = {_server(block).key: block for block in split_servers(listed)}
    of_services = read_own_keys(host, listed) | (known.own_keys if known else frozenset())
    counts = count_open(host)
    own = tuple(block for key, block in blocks.items() if key in of_services and counts.get(key))
    others = tuple(block for key, block in blocks.items() if key not in of_services)
    if not own and not others:
        return None
    since = known.since if known else host.now()
    draining = Draining(since, known.until if known else since + drain_seconds, own, others)
    write_draining(host, draining)
    _set_expiry(host, "0")
    ipvs_gap.silence(host, [_server(block) for block in (*own, *others)])
    if own:
        _rename(host, LINK, HIDDEN_LINK)
    return draining


def restore(host: Host, draining: Draining) -> int:
    """Recreate the virtual servers that are gone; returns their number. Called repeatedly: reads only one file."""
    heads = (host.read(LISTING, limit=KERNEL_LIMIT) or b"").decode(errors="replace").splitlines()
    live = parse_listing("\n".join(line for line in heads if not line.lstrip().startswith("->")))
    lines: list[str] = []
    gone = 0
    for block in draining.others:
        if _server(block).key not in live:
            gone += 1
            lines += block.splitlines()
    for block in draining.own:
        server = _server(block)
        if server.key not in live:
            gone += 1
            lines += [f"-A {definition(server)}", *_real_servers("-a", server, weight=0)]
    _run_ipvsadm(host, lines)
    return gone


def settle(host: Host, draining: Draining) -> None:
    """Call once kube-proxy runs in its new mode. CommandFailed if a virtual server could not be kept."""
    restore(host, draining)
    show_link(host)
    live = {server.key: server for server in _read_servers(host)}
    kept = [_server(block) for block in draining.own]
    lost = [server.text for server in kept if server.key not in live]
    lines = [
        line
        for server in kept
        if server.key in live
        for line in _real_servers("-e", live[server.key], weight=0, only_others=True)
    ]
    _run_ipvsadm(host, lines)
    ipvs_gap.unsilence(host)
    write_draining(host, replace(draining, others=()) if draining.own else None)
    if lost:
        raise MESSAGES.error("migrate-ipvs-lost", count=len(lost), servers=", ".join(lost[:5]))


def give_back(host: Host) -> None:
    """Call before a kube-proxy starts in mode ipvs: the link, the virtual servers and their weights are restored as `hold`
    found them."""
    show_link(host)
    draining = read_draining(host)
    if draining is None:
        return
    restore(host, draining)
    _run_ipvsadm(host, [line for block in draining.own for line in _real_servers("-e", _server(block))])
    ipvs_gap.unsilence(host)
    write_draining(host, None)


def show_link(host: Host) -> None:
    """Give the link of ipvs its name back. If kube-proxy has created a new one, that one has all addresses."""
    if not _has_link(host, HIDDEN_LINK):
        return
    if _has_link(host, LINK):
        host.run(["ip", "link", "delete", HIDDEN_LINK], timeout=_SECONDS)
    else:
        _rename(host, HIDDEN_LINK, LINK)


# Virtual servers as text


def split_servers(listed: str) -> Iterator[str]:
    """Split the output of `ipvsadm -S -n` by virtual server: its line and those of its real servers."""
    block: list[str] = []
    for line in listed.splitlines():
        if line.startswith("-A ") and block:
            yield "\n".join(block)
            block = []
        if line.strip():
            block.append(line)
    if block:
        yield "\n".join(block)


@lru_cache(maxsize=2**16)
def _server(block: str) -> VirtualServer:
    [server] = parse_servers(block)
    return server


def read_own_keys(host: Host, listed: str) -> frozenset[Key]:
    """The keys of those listed virtual servers that belong to Services (_rules/ipvs/plan.py)."""
    try:
        sets = host.run(["ipset", "save"], timeout=_SECONDS, limit=KERNEL_LIMIT).stdout
    except (Unavailable, CommandFailed):
        sets = ""
    links = host.run(["ip", "-j", "address", "show"], timeout=_SECONDS, limit=KERNEL_LIMIT).stdout
    read = [parse(tables=Tables(family), servers=listed, sets=sets, links=links) for family in (4, 6)]
    return frozenset(server.key for rules in read for server in select_own(rules).servers)


def _read_servers(host: Host) -> Collection[VirtualServer]:
    return parse_servers(host.run(["ipvsadm", "-S", "-n"], timeout=_SECONDS, limit=KERNEL_LIMIT).stdout)


def _real_servers(
    verb: str, server: VirtualServer, *, weight: Optional[int] = None, only_others: bool = False
) -> list[str]:
    """Lines for ipvsadm; with `only_others`, only for real servers with another weight."""
    reals = [real for real in server.real_servers if not only_others or real.weight != weight]
    return [
        f"{verb} {real_definition(server, real if weight is None else replace(real, weight=weight))}" for real in reals
    ]


def _run_ipvsadm(host: Host, lines: list[str]) -> None:
    """Run ipvsadm, which continues after a line that fails because kube-proxy has changed that virtual server meanwhile."""
    if lines:
        batch = "".join(f"{line}\n" for line in lines).encode()
        host.run(["ipvsadm", "-R"], stdin=batch, timeout=_SECONDS, check=False)


def _set_expiry(host: Host, value: str) -> None:
    there = read_setting(host, EXPIRE)
    if there not in (None, value):
        change_setting(host, SettingChange(EXPIRE, str(there), value))


def _has_link(host: Host, name: str) -> bool:
    """Whether a link exists, according to /proc/net/dev, which shows this process's network namespace."""
    return f"{name}:" in (host.read("/proc/net/dev") or b"").decode(errors="replace").split()


def _rename(host: Host, name: str, to: str) -> None:
    """Rename a link; no effect if it is absent. The link is down, as kube-proxy creates it, so its addresses and routes
    stay. A link that somebody has set up cannot be renamed before Linux 6.2 (believed); the change continues, and its
    connections may break."""
    if _has_link(host, name):
        host.run(["ip", "link", "set", "dev", name, "name", to], timeout=_SECONDS, check=False)
