# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From what is there to what is wanted, as the smallest list of operations. Pure.

What belongs to the backend is told by the kernel's own state, so that no record of ours can be wrong about it: the sets of
kube-proxy's names with all their elements; the link kube-ipvs0; a virtual server whose address is on that link, or whose
address and port are in one of those sets, or whose port is in the set of node ports of its protocol while its address is
one of the node's. Everything else is foreign, and what lies in excludeCIDRs too: it is not changed, and not removed.

Order, so that a packet meets at no moment less than it would before or after:

    1  sets made, elements added       they exempt, mark or filter only what 2 and 3 bring
    2  virtual servers, real servers   before the address is there, nobody asks them
    3  iptables rules
    4  addresses bound, then unbound   from here on packets come, or no longer come
    5  virtual servers removed
    6  elements and sets removed       nothing asks for them any more

When all is removed, 3 comes after 5: as long as there are virtual servers, packets to them are marked.

A real server that left and still has TCP connections gets weight 0: no new connection comes to it, the open ones go on. A
later run removes it, when it has none left or when its time is over. UDP and SCTP do not wait, as in kube-proxy.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Optional, Union

from ..iptables import restore
from ..iptables.objects import Tables
from ..surroundings import LINK
from .iptables import LAYOUT
from .messages import MESSAGES
from .objects import (
    FORMER_SETS,
    MASQUERADE,
    ROUTE,
    SET_TYPES,
    TUNNEL,
    IpSet,
    IpvsRules,
    Network,
    RealServer,
    VirtualServer,
    set_name,
)

# The programs that do operations, by a batch of lines.
IPSET, IPVSADM, IP = "ipset", "ipvsadm", "ip"

DRAIN_SECONDS = 15 * 60  # as long as ip_vs itself keeps an idle TCP connection (ipvsadm --list --timeout)

_SERVICE_OPTIONS = {"TCP": "-t", "UDP": "-u", "SCTP": "--sctp-service"}
_METHOD_OPTIONS = {MASQUERADE: "-m", ROUTE: "-g", TUNNEL: "-i"}
_KEYED_SETS = ("KUBE-CLUSTER-IP", "KUBE-EXTERNAL-IP", "KUBE-EXTERNAL-IP-LOCAL", "KUBE-LOAD-BALANCER")
_NODE_PORT_SETS = {"TCP": "KUBE-NODE-PORT-TCP", "UDP": "KUBE-NODE-PORT-UDP", "SCTP": "KUBE-NODE-PORT-SCTP-HASH"}


@dataclass(frozen=True)
class Operation:
    """One change outside of iptables: `line` is what the program of `tool` gets of it."""

    kind: str
    target: str
    tool: str
    line: str


AnyOperation = Union[Operation, restore.Operation]


def plan(
    desired: Optional[IpvsRules],
    found: IpvsRules,
    *,
    exclude_cidrs: Collection[str] = (),
    overdue: Optional[Collection[str]] = (),
) -> tuple[AnyOperation, ...]:
    """What brings `found` to `desired`; without `desired`, to where nothing of the backend is left.

    `overdue` has the real servers (as `draining` names them) that are removed in spite of open connections; None: all.
    """
    wanted = desired if desired is not None else IpvsRules(found.family, tables=Tables(found.family))
    excluded = [ipaddress.ip_network(one) for one in exclude_cidrs]
    own_there = own(found)
    leaving = [
        one for one in own_there.servers if one.key not in wanted.server_by_key and not _lies_in(one.address, excluded)
    ]
    _refuse_excluded(wanted, found, own_there, excluded)
    rules = restore.plan(wanted.tables, found.tables, LAYOUT)
    last = desired is None
    return (
        *_sets_added(wanted, own_there),
        *_servers(wanted, found, overdue),
        *(() if last else rules),
        *_addresses(wanted, found),
        *(Operation("remove virtual server", one.text, IPVSADM, f"-D {_service(one)}") for one in leaving),
        *(rules if last else ()),
        *_sets_removed(wanted, own_there),
    )


def own(found: IpvsRules) -> IpvsRules:
    """What of `found` belongs to the backend."""
    keys = {element for name in _KEYED_SETS for element in found.kube_set(name).elements}
    local = {address for _link, addresses in found.links for address in addresses}
    bound = set(found.addresses)
    names = {set_name(name, found.family) for name in (*SET_TYPES, *FORMER_SETS)}
    node_ports = {protocol: found.kube_set(name).elements for protocol, name in _NODE_PORT_SETS.items()}

    def is_own(one: VirtualServer) -> bool:
        if one.mark:
            return False
        key = f"{one.address},{one.protocol.lower()}:{one.port}"
        if one.address in bound or key in keys:
            return True
        return one.address in local and not node_ports[one.protocol].isdisjoint((str(one.port), key))

    return replace(
        found,
        servers=tuple(one for one in found.servers if is_own(one)),
        sets=tuple(one for one in found.sets if one.name in names),
        tables=restore.own(found.tables, LAYOUT),
    )


def draining(desired: IpvsRules, found: IpvsRules) -> tuple[str, ...]:
    """The real servers that only wait for their connections to end, "10.96.0.1:80/TCP > 10.1.0.5:8080", sorted."""
    return tuple(
        sorted(
            _real_target(server, real)
            for server in found.servers
            if server.key in desired.server_by_key
            for real in _gone(desired.server_by_key[server.key], server)
            if _waits(server, real)
        )
    )


def drain_times(waiting: Iterable[str], known: Mapping[str, float], *, now: float) -> dict[str, float]:
    """Since when each of `waiting` drains: the caller keeps this from run to run and hands it in as `known`."""
    return {one: known.get(one, now) for one in waiting}


def overdue(known: Mapping[str, float], *, now: float) -> frozenset[str]:
    return frozenset(one for one, since in known.items() if now - since >= DRAIN_SECONDS)


# --- virtual servers


def _servers(wanted: IpvsRules, found: IpvsRules, late: Optional[Collection[str]]) -> Iterable[Operation]:
    for server in wanted.servers:
        there = found.server_by_key.get(server.key)
        if there == server:
            continue
        if there is None:
            yield Operation("add virtual server", server.text, IPVSADM, f"-A {_definition(server)}")
        elif replace(there, real_servers=()) != replace(server, real_servers=()):
            yield Operation("change virtual server", server.text, IPVSADM, f"-E {_definition(server)}")
        yield from _real_servers(server, there, late)


def _real_servers(
    server: VirtualServer, there: Optional[VirtualServer], late: Optional[Collection[str]]
) -> Iterable[Operation]:
    held = {(one.address, one.port): one for one in there.real_servers} if there is not None else {}
    for real in server.real_servers:
        before = held.get((real.address, real.port))
        if before is None:
            yield _real_operation("add real server", "-a", server, real)
        elif before != real:
            yield _real_operation("change real server", "-e", server, real)
    for real in _gone(server, there):
        if _waits(server, real) and late is not None and _real_target(server, real) not in late:
            if real.weight:
                yield _real_operation("drain real server", "-e", server, replace(real, weight=0))
        else:
            line = f"-d {_service(server)} -r {real.text}"
            yield Operation("remove real server", _real_target(server, real), IPVSADM, line)


def _gone(server: VirtualServer, there: Optional[VirtualServer]) -> list[RealServer]:
    kept = {(one.address, one.port) for one in server.real_servers}
    return [one for one in (there.real_servers if there is not None else ()) if (one.address, one.port) not in kept]


def _waits(server: VirtualServer, real: RealServer) -> bool:
    return server.protocol == "TCP" and real.connections > 0


def _refuse_excluded(wanted: IpvsRules, found: IpvsRules, own_there: IpvsRules, excluded: list[Network]) -> None:
    for one in wanted.servers:
        if (
            one.key in found.server_by_key
            and one.key not in own_there.server_by_key
            and _lies_in(one.address, excluded)
        ):
            raise MESSAGES.error("rules-ipvs-excluded", server=one.text)


def _lies_in(address: str, networks: list[Network]) -> bool:
    return any(ipaddress.ip_address(address) in network for network in networks)


def _real_operation(kind: str, verb: str, server: VirtualServer, real: RealServer) -> Operation:
    line = f"{verb} {_service(server)} -r {real.text} {_METHOD_OPTIONS[real.method]} -w {real.weight}"
    return Operation(kind, _real_target(server, real), IPVSADM, line)


def _real_target(server: VirtualServer, real: RealServer) -> str:
    return f"{server.text} > {real.text}"


def _service(server: VirtualServer) -> str:
    return f"{_SERVICE_OPTIONS[server.protocol]} {server.text.rpartition('/')[0]}"


def _definition(server: VirtualServer) -> str:
    words = [_service(server), f"-s {server.scheduler}"]
    if server.persistent_seconds:
        words.append(f"-p {server.persistent_seconds}")
    if server.flags:
        words.append(f"-b {','.join(server.flags)}")
    return " ".join([*words, *server.other])


# --- addresses


def _addresses(wanted: IpvsRules, found: IpvsRules) -> Iterable[Operation]:
    length = 32 if wanted.family == 4 else 128
    if wanted.link and not found.link:
        yield Operation("add link", LINK, IP, f"link add {LINK} type dummy")
    for address in wanted.addresses:
        if address not in found.bound:
            yield Operation("bind address", address, IP, f"address add {address}/{length} dev {LINK}")
    for address in found.addresses:
        if address not in wanted.bound:
            yield Operation("unbind address", address, IP, f"address delete {address}/{length} dev {LINK}")
    if found.link and not wanted.link and not found.other_addresses:
        yield Operation("remove link", LINK, IP, f"link delete {LINK}")


# --- sets


def _sets_added(wanted: IpvsRules, found: IpvsRules) -> Iterable[Operation]:
    for name in SET_TYPES:
        one = wanted.set_by_name.get(set_name(name, wanted.family))
        if one is None:
            continue
        there = found.set_by_name.get(one.name)
        if there is None:
            yield Operation("add set", one.name, IPSET, _creation(one))
        elif (there.type, there.family) != (one.type, one.family):
            raise MESSAGES.error("rules-ipvs-set-type", name=one.name, there=there.type, wanted=one.type)
        elif len(one.elements) > there.maxelem:
            raise MESSAGES.error("rules-ipvs-set-small", name=one.name, room=there.maxelem, wanted=len(one.elements))
        for element in sorted(one.elements - (there.elements if there is not None else frozenset())):
            yield Operation("add set element", f"{one.name} {element}", IPSET, f"add {one.name} {element}")


def _sets_removed(wanted: IpvsRules, found: IpvsRules) -> Iterable[Operation]:
    for name in reversed([*SET_TYPES, *FORMER_SETS]):
        there = found.set_by_name.get(set_name(name, wanted.family))
        if there is None:
            continue
        one = wanted.set_by_name.get(there.name)
        if one is None:
            yield Operation("remove set", there.name, IPSET, f"destroy {there.name}")
            continue
        for element in sorted(there.elements - one.elements):
            yield Operation("remove set element", f"{there.name} {element}", IPSET, f"del {there.name} {element}")


def _creation(one: IpSet) -> str:
    if one.type == "bitmap:port":
        return f"create {one.name} {one.type} range 0-65535"
    family = "inet" if one.family == 4 else "inet6"
    return f"create {one.name} {one.type} family {family} hashsize 1024 maxelem {one.maxelem}"
