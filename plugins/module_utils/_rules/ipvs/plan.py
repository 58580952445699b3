# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans the smallest list of operations from the live to the desired state. Pure.

The kernel's own state decides what belongs to the backend, so no record can be wrong about it: the sets with kube-proxy's
names and all their elements; the link kube-ipvs0; a virtual server if its address is on that link, if its address and port
are in one of those sets, or if its port is in the set of node ports of its protocol and its address is one of the node's.
Everything else, and everything in excludeCIDRs, belongs to others: it is never changed or removed.

The order ensures that no packet is ever treated worse than before or after the change:

    1  create sets, add elements       they exempt, mark or filter only what 2 and 3 add
    2  virtual servers, real servers   without the address they get no packets
    3  iptables rules
    4  bind, then unbind addresses     from here on packets arrive, or no longer arrive
    5  remove virtual servers
    6  remove elements and sets        no rule uses them any more

If everything is removed, 3 comes after 5: packets are marked as long as virtual servers exist.

A real server that is no longer desired and still has TCP connections gets weight 0: it gets no new connections, and the open
ones continue. A later run removes it when none is left or its drain time is over. UDP and SCTP are not drained, as in
kube-proxy.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Optional, Union

from ..addresses import is_within
from ..iptables import restore
from ..iptables.objects import Tables
from ..node_addresses import LINK
from .iptables import LAYOUT
from .messages import MESSAGES
from .objects import (
    FORMER_SETS,
    SET_TYPES,
    IpvsRules,
    Network,
    RealServer,
    VirtualServer,
    set_name,
    sort_servers,
)
from .text import creation, definition, real_definition, service, with_length

# The programs that execute operations, from batches of lines.
IPSET, IPVSADM, IP = "ipset", "ipvsadm", "ip"

DRAIN_SECONDS = 15 * 60  # how long ip_vs itself keeps an idle TCP connection (ipvsadm --list --timeout)

_KEYED_SETS = ("KUBE-CLUSTER-IP", "KUBE-EXTERNAL-IP", "KUBE-EXTERNAL-IP-LOCAL", "KUBE-LOAD-BALANCER")
_NODE_PORT_SETS = {"TCP": "KUBE-NODE-PORT-TCP", "UDP": "KUBE-NODE-PORT-UDP", "SCTP": "KUBE-NODE-PORT-SCTP-HASH"}


@dataclass(frozen=True)
class Operation:
    """One change outside iptables; `line` is the input line for `tool`."""

    kind: str
    target: str
    tool: str
    line: str


AnyOperation = Union[Operation, restore.Operation]


def plan(
    desired: Optional[IpvsRules],
    live: IpvsRules,
    *,
    exclude_cidrs: Collection[str] = (),
    overdue: Optional[Collection[str]] = (),
) -> tuple[AnyOperation, ...]:
    """The operations from `live` to `desired`; None removes everything of the backend.

    `overdue` are the real servers, named as by `find_draining`, that are removed despite open connections; None: all.
    """
    target = _target(desired, live)
    excluded = [ipaddress.ip_network(cidr) for cidr in exclude_cidrs]
    own_there = select_own(live)
    leaving = [server for server in own_there.servers if _leaves(server, target, excluded)]
    _refuse_excluded(target, live, own_there, excluded)
    rules = restore.plan(target.tables, live.tables, LAYOUT)
    last = desired is None
    return (
        *_add_sets(target, own_there),
        *_servers(target, live, overdue),
        *(() if last else rules),
        *_addresses(target, live),
        *(Operation("remove virtual server", server.text, IPVSADM, f"-D {service(server)}") for server in leaving),
        *(rules if last else ()),
        *_remove_sets(target, own_there),
    )


def changeable(desired: Optional[IpvsRules], live: IpvsRules) -> IpvsRules:
    """The part of `live` that `plan` may change."""
    target = _target(desired, live)
    own = select_own(live)
    taken = [server for server in live.servers if server.key in {**own.server_by_key, **target.server_by_key}]
    return replace(own, servers=tuple(taken), tables=restore.changeable(target.tables, live.tables, LAYOUT))


def result(
    desired: Optional[IpvsRules],
    live: IpvsRules,
    *,
    exclude_cidrs: Collection[str] = (),
    overdue: Optional[Collection[str]] = (),
) -> IpvsRules:
    """`changeable` after the operations of `plan`."""
    target = _target(desired, live)
    excluded = [ipaddress.ip_network(cidr) for cidr in exclude_cidrs]
    own = select_own(live)
    staying = [
        server
        for server in own.servers
        if server.key not in target.server_by_key and is_within(server.address, excluded)
    ]
    made = [_with_draining(server, live.server_by_key.get(server.key), overdue) for server in target.servers]
    sets = [
        replace(ipset, maxelem=own.set_by_name[ipset.name].maxelem) if ipset.name in own.set_by_name else ipset
        for ipset in target.sets
    ]
    return replace(
        target,
        link=_has_link(target, live),
        servers=sort_servers([*staying, *made]),
        sets=tuple(sets),
        tables=restore.result(target.tables, live.tables, LAYOUT),
    )


def after_first_family(live: IpvsRules, desired: Optional[IpvsRules], first: IpvsRules) -> IpvsRules:
    """`live` after the other family, which shares the link, has been changed from `first` to `desired`."""
    target = _target(desired, first)
    return replace(live, link=_has_link(target, first), other_addresses=target.addresses)


def _has_link(target: IpvsRules, live: IpvsRules) -> bool:
    return target.link or (live.link and bool(live.other_addresses))


def _target(desired: Optional[IpvsRules], live: IpvsRules) -> IpvsRules:
    return desired if desired is not None else IpvsRules(live.family, tables=Tables(live.family))


def _leaves(server: VirtualServer, target: IpvsRules, excluded: list[Network]) -> bool:
    return server.key not in target.server_by_key and not is_within(server.address, excluded)


def _with_draining(
    server: VirtualServer, there: Optional[VirtualServer], late: Optional[Collection[str]]
) -> VirtualServer:
    draining = [replace(real, weight=0) for real in _gone(server, there) if _drains(server, real, late)]
    return replace(server, real_servers=tuple(sorted([*server.real_servers, *draining]))) if draining else server


def select_own(live: IpvsRules) -> IpvsRules:
    """The part of `live` that belongs to the backend."""
    keys = {element for name in _KEYED_SETS for element in live.kube_set(name).elements}
    local = {address for _link, addresses in live.links for address in addresses}
    bound = set(live.addresses)
    names = {set_name(name, live.family) for name in (*SET_TYPES, *FORMER_SETS)}
    node_ports = {protocol: live.kube_set(name).elements for protocol, name in _NODE_PORT_SETS.items()}

    def is_own(server: VirtualServer) -> bool:
        if server.mark:
            return False
        key = f"{server.address},{server.protocol.lower()}:{server.port}"
        if server.address in bound or key in keys:
            return True
        return server.address in local and not node_ports[server.protocol].isdisjoint((str(server.port), key))

    return replace(
        live,
        servers=tuple(server for server in live.servers if is_own(server)),
        sets=tuple(ipset for ipset in live.sets if ipset.name in names),
        tables=restore.select_own(live.tables, LAYOUT),
    )


def find_draining(desired: IpvsRules, live: IpvsRules) -> tuple[str, ...]:
    """The real servers that are draining, as "10.96.0.1:80/TCP > 10.1.0.5:8080", sorted."""
    return tuple(
        sorted(
            _real_target(server, real)
            for server in live.servers
            if server.key in desired.server_by_key
            for real in _gone(desired.server_by_key[server.key], server)
            if _waits(server, real)
        )
    )


def drain_times(waiting: Iterable[str], known: Mapping[str, float], *, now: float) -> dict[str, float]:
    """When each of `waiting` began to drain. The caller stores this and passes it to the next run as `known`."""
    return {name: known.get(name, now) for name in waiting}


def find_overdue(known: Mapping[str, float], *, now: float) -> frozenset[str]:
    """The real servers that have drained for DRAIN_SECONDS. `known` is what `drain_times` returned."""
    return frozenset(name for name, since in known.items() if now - since >= DRAIN_SECONDS)


# --- virtual servers


def _servers(desired: IpvsRules, live: IpvsRules, late: Optional[Collection[str]]) -> Iterable[Operation]:
    for server in desired.servers:
        there = live.server_by_key.get(server.key)
        if there == server:
            continue
        if there is None:
            yield Operation("add virtual server", server.text, IPVSADM, f"-A {definition(server)}")
        elif replace(there, real_servers=()) != replace(server, real_servers=()):
            yield Operation("change virtual server", server.text, IPVSADM, f"-E {definition(server)}")
        yield from _real_servers(server, there, late)


def _real_servers(
    server: VirtualServer, there: Optional[VirtualServer], late: Optional[Collection[str]]
) -> Iterable[Operation]:
    held = {(real.address, real.port): real for real in there.real_servers} if there is not None else {}
    for real in server.real_servers:
        before = held.get((real.address, real.port))
        if before is None:
            yield _real_operation("add real server", "-a", server, real)
        elif before != real:
            yield _real_operation("change real server", "-e", server, real)
    for real in _gone(server, there):
        if _drains(server, real, late):
            if real.weight:
                yield _real_operation("drain real server", "-e", server, replace(real, weight=0))
        else:
            line = f"-d {service(server)} -r {real.text}"
            yield Operation("remove real server", _real_target(server, real), IPVSADM, line)


def _gone(server: VirtualServer, there: Optional[VirtualServer]) -> list[RealServer]:
    kept = {(real.address, real.port) for real in server.real_servers}
    return [real for real in (there.real_servers if there is not None else ()) if (real.address, real.port) not in kept]


def _drains(server: VirtualServer, real: RealServer, late: Optional[Collection[str]]) -> bool:
    return _waits(server, real) and late is not None and _real_target(server, real) not in late


def _waits(server: VirtualServer, real: RealServer) -> bool:
    return server.protocol == "TCP" and real.connections > 0


def _refuse_excluded(desired: IpvsRules, live: IpvsRules, own_there: IpvsRules, excluded: list[Network]) -> None:
    for server in desired.servers:
        if (
            server.key in live.server_by_key
            and server.key not in own_there.server_by_key
            and is_within(server.address, excluded)
        ):
            raise MESSAGES.error("rules-ipvs-excluded", server=server.text)


def _real_operation(kind: str, verb: str, server: VirtualServer, real: RealServer) -> Operation:
    return Operation(kind, _real_target(server, real), IPVSADM, f"{verb} {real_definition(server, real)}")


def _real_target(server: VirtualServer, real: RealServer) -> str:
    return f"{server.text} > {real.text}"


# --- addresses


def _addresses(desired: IpvsRules, live: IpvsRules) -> Iterable[Operation]:
    if desired.link and not live.link:
        yield Operation("add link", LINK, IP, f"link add {LINK} type dummy")
    for address in desired.addresses:
        if address not in live.bound:
            yield Operation("bind address", address, IP, f"address add {with_length(address)} dev {LINK}")
    for address in live.addresses:
        if address not in desired.bound:
            yield Operation("unbind address", address, IP, f"address delete {with_length(address)} dev {LINK}")
    if live.link and not desired.link and not live.other_addresses:
        yield Operation("remove link", LINK, IP, f"link delete {LINK}")


# --- sets


def _add_sets(desired: IpvsRules, live: IpvsRules) -> Iterable[Operation]:
    for name in SET_TYPES:
        ipset = desired.set_by_name.get(set_name(name, desired.family))
        if ipset is None:
            continue
        there = live.set_by_name.get(ipset.name)
        if there is None:
            yield Operation("add set", ipset.name, IPSET, creation(ipset))
        elif (there.type, there.family) != (ipset.type, ipset.family):
            raise MESSAGES.error("rules-ipvs-set-type", name=ipset.name, there=there.type, wanted=ipset.type)
        elif len(ipset.elements) > there.maxelem:
            raise MESSAGES.error(
                "rules-ipvs-set-small", name=ipset.name, room=there.maxelem, wanted=len(ipset.elements)
            )
        for element in sorted(ipset.elements - (there.elements if there is not None else frozenset())):
            yield Operation("add set element", f"{ipset.name} {element}", IPSET, f"add {ipset.name} {element}")


def _remove_sets(desired: IpvsRules, live: IpvsRules) -> Iterable[Operation]:
    for name in reversed([*SET_TYPES, *FORMER_SETS]):
        there = live.set_by_name.get(set_name(name, desired.family))
        if there is None:
            continue
        ipset = desired.set_by_name.get(there.name)
        if ipset is None:
            yield Operation("remove set", there.name, IPSET, f"destroy {there.name}")
            continue
        for element in sorted(there.elements - ipset.elements):
            yield Operation("remove set element", f"{there.name} {element}", IPSET, f"del {there.name} {element}")
