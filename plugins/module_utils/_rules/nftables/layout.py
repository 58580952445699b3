# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of our table that is the same for every cluster, and why each rule is where it is.

    nat-prerouting, nat-output (nat, -100)       every new connection, once:
      services
        source-ranges     address . protocol . port : jump sources-...     who may use a load balancer's address
        services          address . protocol . port : goto cluster-ip-tcp-4, external-tcp-4, local-tcp-4-2, reject, drop
        node-ports                  protocol . port : goto node-port-tcp-4, ...
          cluster-ip-tcp-4        4 endpoints: mark for masquerade if need be, then
            endpoints-tcp         address . port . 0..3 : endpoint . its port         drawn with numgen random
    nat-postrouting (nat, 100)                   marked connections, and those that return to where they came from
    filter-forward, filter-output (filter, 0)    cluster-ips, service-cidrs: what is not translated

**A Service is elements.** Rules and chains say only what is true of every Service with so many endpoints, so one that
comes or goes, or an endpoint that does, is a handful of elements, and the time of a change hardly depends on how many
Services there are. Chains with a rule for each Service or endpoint cost the kernel quadratic time to load. The count
of endpoints selects the chain because the modulus of `numgen` is part of a rule. Maps of endpoints are apart by
protocol: nft refuses a later rule that looks `tcp dport` up where `th dport` was declared.

**Decisions are in the nat hooks.** The kernel runs them for the first packet of a connection only, so none of our
rules costs an established connection anything there, and none needs `ct state new`. They *must* be prerouting and
output: the route is chosen by the translated destination. Source ranges are checked before translation, as
the translated packet no longer has the load balancer's address. What has no endpoints is rejected or dropped by the verdict
of its element, where it would be translated. A connection that one table has translated is not given to nat chains of later
priority, nor is one masqueraded twice, so two tables can coexist, and the earlier one decides.

**Masquerading is marked, then done.** Only postrouting may masquerade, but the reason for it (who sent the packet
to which address) is known before translation. The mark's bit is cleared on the way, so that it is set in no packet that
leaves. A pod that is drawn as its own endpoint would get a packet from itself and answer over loopback: `hairpin` has
the endpoints of this node as `address . address`. The packets of a pod on another node were translated there.

**The rest is refused after translation.** A clusterIP without this port is rejected, and what is in a ServiceCIDR but
no clusterIP is dropped. Whether another program serves a packet (a node-local cache that has the address on a
link, another translation) is known only in forward and output, not in input.

**Probes may bypass the table.** To test kube-proxy's rules beside ours, `dscp_bypass` puts a rule before all others that
returns packets with BYPASS_DSCP to the tables after ours. The field survives the way out of a pod, which a mark does not.

Others may rely on the priorities of the base chains. Names of chains and sets and the mark may change.
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
LOOPBACK_NODE_PORTS = "loopback-node-ports"  # exists where they are rejected
# Maps of endpoints, each with "-tcp", "-udp" or "-sctp": of an address, and of a node port; those that every source may
# reach, and those that a source outside may under externalTrafficPolicy Local.
ENDPOINTS = "endpoints"
LOCAL_ENDPOINTS = "local-endpoints"
NODE_PORT_ENDPOINTS = "node-port-endpoints"
LOCAL_NODE_PORT_ENDPOINTS = "local-node-port-endpoints"

# Names of chains.
DISPATCH = "services"
UNCLAIMED = "cluster-ips-check"
REJECT_CHAIN = "reject-connection"  # a map's verdict cannot be `reject`

NAT_DESTINATION = -100  # dstnat: where kube-proxy's chains are
NAT_SOURCE = 100  # srcnat
FILTER = 0


_ANY_SLOT = Numgen(65536)  # in a declaration only the type of the expression counts


@dataclass(frozen=True)
class Family:
    """How the tables of the two families differ."""

    name: str  # the table's family, and the name of its header in expressions
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
    return protocol.lower()


def slot_key(family: Family, protocol: str, *, node_port: bool, slot: Numgen) -> Concat:
    """The key of a map of endpoints: the destination, and a random number."""
    port = Payload(protocol_name(protocol), "dport")
    return Concat((port, slot) if node_port else (family.destination, port, slot))


def local_source() -> Match:
    """Whether the source is an address of this node."""
    return Match(Fib(("saddr",), "type"), AnonymousSet.of("local"))


def add_mark(mark: int) -> Mangle:
    return Mangle(Meta("mark"), Binary(Meta("mark"), "|", str(mark)))


def sets(family: Family) -> tuple[Set, ...]:
    """All that do not belong to a single Service, without elements."""
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


# Who writes our rules into a table: the module service_rules, a change of kube-proxy's mode, or ballast-service-proxy.
SERVICE_RULES, TAKEOVER, SERVICE_PROXY = "service-rules", "takeover", "service-proxy"
OWNERS = (SERVICE_RULES, TAKEOVER, SERVICE_PROXY)


def owner_chain(owner: str) -> str:
    """The empty chain that marks a table as ours: not every nft and kernel has comments of tables, all have chains."""
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


# A table of an earlier version has no owner chain and is recognised by these.
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
        # By the routing table, as a link may get an address later. Loopback is not served: a packet from there would
        # leave the node with 127.0.0.1 as its source, and no answer could come back.
        served = (
            Match(Fib(("daddr",), "type"), AnonymousSet.of("local")),
            Match(family.destination, AnonymousSet.of(family.loopback), UNEQUAL),
        )
    rules = (
        _rule(Vmap(frontend, Named(SOURCE_RANGES))),
        _rule(Vmap(frontend, Named(SERVICES))),
        # After addresses: an external IP may be the node's own.
        _rule(*served, Vmap(Concat((protocol, port)), Named(NODE_PORTS))),
    )
    if not rejects_on_loopback:
        return rules
    loopback = Match(family.destination, AnonymousSet.of(family.loopback))
    return (*rules, _rule(loopback, Vmap(Concat((protocol, port)), Named(LOOPBACK_NODE_PORTS))))


def _rule(*statements: Statement) -> Rule:
    return Rule(statements)
