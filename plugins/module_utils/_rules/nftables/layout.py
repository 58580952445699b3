# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fixed part of our table, which does not depend on Services, and why each rule is where it is.

    nat-prerouting, nat-output (nat, -100)       every new connection, once:
      services
        source-ranges     address . protocol . port : jump sources-...     who may use a load balancer's address
        services          address . protocol . port : goto cluster-ip-tcp-4, external-tcp-4, local-tcp-4-2, reject, drop
        node-ports                  protocol . port : goto node-port-tcp-4, ...
          cluster-ip-tcp-4        4 endpoints: mark for masquerade if need be, then
            endpoints-tcp         address . port . 0..3 : endpoint . its port         drawn with numgen random
    nat-postrouting (nat, 100)                   marked connections, and those that return to where they came from
    filter-forward, filter-output (filter, 0)    cluster-ips, service-cidrs: what is not translated

**A Service is elements.** Rules and chains state only what holds for every Service with a given number of endpoints. Adding
or removing a Service or an endpoint changes a handful of elements, so the time of a change hardly depends on the number of
Services. Chains with a rule per Service or endpoint would take the kernel quadratic time to load. The number of endpoints
selects the chain because the modulus of `numgen` is part of a rule. Maps of endpoints are separate per protocol: nft refuses
to look up `tcp dport` in a map that was declared with `th dport`.

**Decisions are in the nat hooks.** The kernel runs them only for the first packet of a connection, so our rules cost an
established connection nothing there, and need no `ct state new`. The hooks *must* be prerouting and output: routing uses the
translated destination. Source ranges are checked before translation, because the translated packet no longer has the load
balancer's address. Destinations without endpoints are rejected or dropped by the verdict of their element, in the place of
the translation. A connection that one table has translated skips nat chains of later priority, and none is masqueraded
twice, so two tables can coexist and the earlier one decides.

**Masquerading is marked first and done later.** Only postrouting may masquerade, but the reason for it (who sent the packet
to which address) is known only before translation. Postrouting clears the mark's bit, so no packet leaves with it. A pod
that is picked as its own endpoint would get a packet from itself and answer over loopback: the set `hairpin` has the
endpoints of this node as `address . address`. Packets of a pod on another node were translated there.

**Everything else is refused after translation.** A port that a clusterIP does not have is rejected; an address in a
ServiceCIDR that is no clusterIP is dropped. Whether another program serves a packet (a node-local cache with the address on
a link, another translation) is known only in forward and output, not in input.

**Probes may bypass the table.** To test kube-proxy's rules next to ours, `dscp_bypass` adds a first rule that returns
packets with BYPASS_DSCP to the tables after ours. Unlike a mark, that field survives the way out of a pod.

The priorities of the base chains are a public interface. The mark and the names of chains and sets may change.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..._core.host.names import MARK
from ..backend import BYPASS_DSCP
from ..packet import PROTOCOLS
from .expressions import (
    ANY_BIT,
    DROP,
    JUMP,
    RETURN,
    UNEQUAL,
    AnonymousSet,
    Binary,
    Concat,
    Ct,
    Expression,
    Fib,
    Mangle,
    Match,
    Meta,
    Named,
    Nat,
    Numgen,
    Payload,
    Reject,
    Statement,
    Verdict,
    Vmap,
)
from .objects import VERDICT, Chain, Hook, Rule, Set

# Names of sets and maps.
CLUSTER_IPS = "cluster-ips"
SERVICE_CIDRS = "service-cidrs"
NODE_PORT_IPS = "node-port-ips"
HAIRPIN = "hairpin"
SOURCE_RANGES = "source-ranges"
SERVICES = "services"
NODE_PORTS = "node-ports"
LOOPBACK_NODE_PORTS = "loopback-node-ports"  # exists only if they are rejected
# Maps of endpoints, each with suffix "-tcp", "-udp" or "-sctp": for addresses and for node ports; those that every source
# may reach, and those that a source outside may reach with externalTrafficPolicy Local.
ENDPOINTS = "endpoints"
LOCAL_ENDPOINTS = "local-endpoints"
NODE_PORT_ENDPOINTS = "node-port-endpoints"
LOCAL_NODE_PORT_ENDPOINTS = "local-node-port-endpoints"

# Names of chains.
DISPATCH = "services"
UNCLAIMED = "cluster-ips-check"
REJECT_CHAIN = "reject-connection"  # exists because a map's verdict cannot be `reject`

NAT_DESTINATION = -100  # dstnat: the priority of kube-proxy's chains
NAT_SOURCE = 100  # srcnat
FILTER = 0


_ANY_SLOT = Numgen(65536)  # in a declaration, only the type of the expression matters


@dataclass(frozen=True)
class Family:
    """What differs between the tables of the two families."""

    name: str  # the family of the table, and the name of its header in expressions
    address_type: str
    loopback: str

    @property
    def source(self) -> Payload:
        return Payload(self.name, "saddr")

    @property
    def destination(self) -> Payload:
        return Payload(self.name, "daddr")


FAMILY = {4: Family("ip", "ipv4_addr", "127.0.0.0/8"), 6: Family("ip6", "ipv6_addr", "::1")}


def protocol_name(protocol: str) -> str:
    """A protocol of Kubernetes, "TCP", as nft writes it: "tcp"."""
    return protocol.lower()


def slot_key(family: Family, protocol: str, *, node_port: bool, slot: Numgen) -> Concat:
    """The key of a map of endpoints: the destination and a slot number."""
    port = Payload(protocol_name(protocol), "dport")
    return Concat((port, slot) if node_port else (family.destination, port, slot))


def local_source() -> Match:
    """Matches if the source is an address of this node."""
    return Match(Fib(("saddr",), "type"), AnonymousSet.of("local"))


def add_mark(mark: int) -> Mangle:
    """Sets these bits of the packet's mark; the others keep their values."""
    return Mangle(Meta("mark"), Binary(Meta("mark"), "|", str(mark)))


def sets(family: Family) -> tuple[Set, ...]:
    """The sets that do not belong to a single Service, without elements."""
    address = family.address_type
    frontend = (address, "inet_proto", "inet_service")
    plain = (
        Set(CLUSTER_IPS, (address,)),
        Set(SERVICE_CIDRS, (address,), flags=("interval",)),
        Set(NODE_PORT_IPS, (address,)),
        Set(HAIRPIN, (address, address)),
        Set(SOURCE_RANGES, frontend, data=(VERDICT,)),
        Set(SERVICES, frontend, data=(VERDICT,)),
        Set(NODE_PORTS, frontend[1:], data=(VERDICT,)),
    )
    return plain + tuple(
        _endpoints(family, name, protocol, node_port=node_port)
        for name, node_port in (
            (ENDPOINTS, False),
            (LOCAL_ENDPOINTS, False),
            (NODE_PORT_ENDPOINTS, True),
            (LOCAL_NODE_PORT_ENDPOINTS, True),
        )
        for protocol in PROTOCOLS
    )


def _endpoints(family: Family, name: str, protocol: str, *, node_port: bool) -> Set:
    destination = slot_key(family, protocol, node_port=node_port, slot=_ANY_SLOT).parts
    types = ("inet_service", "integer")
    return Set(
        f"{name}-{protocol_name(protocol)}",
        types if node_port else (family.address_type, *types),
        data=(family.address_type, "inet_service"),
        key_typeof=destination,
        data_typeof=(family.destination, Payload(protocol_name(protocol), "dport")),
    )


# Which program writes our rules into a table: the module service_rules, a change of kube-proxy's mode, or
# ballast-service-proxy.
SERVICE_RULES, TAKEOVER, SERVICE_PROXY = "service-rules", "takeover", "service-proxy"
OWNERS = (SERVICE_RULES, TAKEOVER, SERVICE_PROXY)


def owner_chain(owner: str) -> str:
    """The empty chain that marks a table as ours: unlike comments of tables, every nft and kernel supports chains."""
    return f"{MARK}-{owner}"


def loopback_node_ports() -> Set:
    return Set(LOOPBACK_NODE_PORTS, ("inet_proto", "inet_service"), data=(VERDICT,))


def chains(
    family: Family,
    *,
    mark: int,
    all_local_node_ports: bool,
    rejects_on_loopback: bool,
    priority_offset: int,
    dscp_bypass: bool,
    owner: str,
) -> tuple[Chain, ...]:
    """The chains that do not depend on the Services."""

    def base(name: str, kind: str, hook: str, priority: int, *rules: Rule) -> Chain:
        return Chain(name, rules, base=Hook(kind, hook, priority + priority_offset))

    dispatch = [_rule(Verdict(JUMP, DISPATCH))]
    if dscp_bypass:
        carries = Match(Payload(family.name, "dscp"), AnonymousSet.of(str(BYPASS_DSCP)))
        dispatch.insert(0, _rule(carries, Verdict(RETURN)))
    unclaimed = _rule(Match(Ct("state"), AnonymousSet.of("new"), ANY_BIT), Verdict(JUMP, UNCLAIMED))
    return (
        base("nat-prerouting", "nat", "prerouting", NAT_DESTINATION, *dispatch),
        base("nat-output", "nat", "output", NAT_DESTINATION, *dispatch),
        base("nat-postrouting", "nat", "postrouting", NAT_SOURCE, *_masquerade(family, mark)),
        base("filter-forward", "filter", "forward", FILTER, unclaimed),
        base("filter-output", "filter", "output", FILTER, unclaimed),
        Chain(
            DISPATCH,
            _dispatch(family, all_local_node_ports=all_local_node_ports, rejects_on_loopback=rejects_on_loopback),
        ),
        Chain(
            UNCLAIMED,
            (
                _rule(Match(family.destination, Named(CLUSTER_IPS)), Reject()),
                _rule(Match(family.destination, Named(SERVICE_CIDRS)), Verdict(DROP)),
            ),
        ),
        Chain(REJECT_CHAIN, (_rule(Reject()),)),
        Chain(owner_chain(owner)),
    )


# A table written by an earlier version has no owner chain; it is recognized by these chains.
EARLIER_CHAINS = frozenset(
    (
        *("nat-prerouting", "nat-output", "nat-postrouting", "filter-forward", "filter-output"),
        *(DISPATCH, UNCLAIMED, REJECT_CHAIN),
    )
)


def _masquerade(family: Family, mark: int) -> tuple[Rule, ...]:
    masquerade = Nat("masquerade", flags=("fully-random",))
    marked = Match(Binary(Meta("mark"), "&", str(mark)), AnonymousSet.of("0"), UNEQUAL)
    clear = Mangle(Meta("mark"), Binary(Meta("mark"), "^", str(mark)))
    translated = Match(Ct("status"), AnonymousSet.of("dnat"), ANY_BIT)
    returns = Match(Concat((family.source, family.destination)), Named(HAIRPIN))
    return (_rule(marked, clear, masquerade), _rule(translated, returns, masquerade))


def _dispatch(family: Family, *, all_local_node_ports: bool, rejects_on_loopback: bool) -> tuple[Rule, ...]:
    protocol, port = Meta("l4proto"), Payload("th", "dport")
    frontend: Expression = Concat((family.destination, protocol, port))
    served: tuple[Statement, ...] = (Match(family.destination, Named(NODE_PORT_IPS)),)
    if all_local_node_ports:
        # By the routing table, because a link may get an address later. Loopback is not served: the packet would leave the
        # node with source 127.0.0.1, and no reply could come back.
        served = (
            Match(Fib(("daddr",), "type"), AnonymousSet.of("local")),
            Match(family.destination, AnonymousSet.of(family.loopback), UNEQUAL),
        )
    rules = (
        _rule(Vmap(frontend, Named(SOURCE_RANGES))),
        _rule(Vmap(frontend, Named(SERVICES))),
        # After the addresses: an external IP may be one of the node's own.
        _rule(*served, Vmap(Concat((protocol, port)), Named(NODE_PORTS))),
    )
    if not rejects_on_loopback:
        return rules
    loopback = Match(family.destination, AnonymousSet.of(family.loopback))
    return (*rules, _rule(loopback, Vmap(Concat((protocol, port)), Named(LOOPBACK_NODE_PORTS))))


def _rule(*statements: Statement) -> Rule:
    return Rule(statements)
