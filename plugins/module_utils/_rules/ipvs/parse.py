# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses dumps of ipvs, ipsets and links. Pure; every fault is an error with the line and its number.

The grammar covers what ipvsadm 1.28 to 1.31, ipset 6 and 7 and iproute2 print for kube-proxy's objects. Options of other
programs' virtual servers and elements of their sets are kept as text.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NoReturn, Optional

from ..iptables.objects import Tables
from ..node_addresses import LINK, parse_links
from ..packet import PROTOCOLS
from .iptables import sort_out_filter
from .messages import MESSAGES
from .objects import (
    DEFAULT_MAXELEM,
    KUBE_TYPES,
    MASQUERADE,
    ROUTE,
    TUNNEL,
    IpSet,
    IpvsRules,
    RealServer,
    VirtualServer,
    address,
    address_bytes,
    sort_servers,
)

_SERVICE_OPTIONS = {"-t": "TCP", "-u": "UDP", "--sctp-service": "SCTP", "-f": ""}
_METHODS = {"-m": MASQUERADE, "-g": ROUTE, "-i": TUNNEL}
_FLAG_OPTIONS = ("-o",)  # options without a value that only other programs use
_VALUE_OPTIONS = (
    "-M",
    "--pe",
    "pe",
)  # options with a value that only other programs use; ipvsadm before 1.31 omits the hyphens of --pe
_TUNNEL_VALUES = ("--tun-type", "--tun-port")
_TUNNEL_FLAGS = ("--tun-nocsum", "--tun-csum", "--tun-remcsum")
_LIMITS = {"port": 2**16, "weight": 2**31, "timeout": 2**31, "mark": 2**32, "maxelem": 2**32}
_SET_FAMILIES = {"inet": 4, "inet6": 6}
_SET_FLAGS = ("counters", "comment", "skbinfo", "forceadd", "wildcard")
_SET_VALUES = (
    "family",
    "hashsize",
    "maxelem",
    "bucketsize",
    "initval",
    "range",
    "timeout",
    "size",
)

Key = tuple[int, str, str, int]


def parse(*, tables: Tables, servers: str, sets: str, links: str, connections: str = "") -> IpvsRules:
    """The state of a node in the family of `tables`: its rules, and the output of `ipvsadm -S -n`, `ipset save` and `ip -j
    address show`. `connections` is /proc/net/ip_vs; without it the number of connections is unknown."""
    family = tables.family
    open_ones = parse_connections(connections)
    listed = parse_links(links)
    on_link = {
        address: ipaddress.ip_address(address).version
        for name, addresses in listed
        if name == LINK
        for address in addresses
    }
    return IpvsRules(
        family=family,
        link=any(name == LINK for name, _scope in listed),
        addresses=tuple(sorted((bound for bound in on_link if on_link[bound] == family), key=address_bytes)),
        servers=tuple(
            _with_connections(server, open_ones)
            for server in parse_servers(servers)
            if _is_of_family(server.address, family)
        ),
        sets=parse_sets(sets),
        tables=sort_out_filter(tables),
        links=tuple((name, addresses) for name, addresses in listed if name != LINK),
        other_addresses=tuple(bound for bound in on_link if on_link[bound] != family),
    )


class _Bad(Exception):
    """What is wrong with a line."""


def parse_servers(text: str) -> tuple[VirtualServer, ...]:
    """`ipvsadm -S -n`: virtual servers by key, each with its real servers, sorted. Numbers of connections are not
    included."""
    servers: dict[Key, VirtualServer] = {}
    members: dict[Key, dict[tuple[str, int], RealServer]] = {}
    for number, line in _lines(text):
        try:
            words = line.split()
            if words[0] == "-A":
                server = _virtual_server(words[1:])
                if server.key in servers:
                    raise _Bad("a virtual server twice")
                servers[server.key], members[server.key] = server, {}
            elif words[0] == "-a":
                key, real = _real_server(words[1:])
                if key not in servers:
                    raise _Bad("a real server without its virtual server")
                if (real.address, real.port) in members[key]:
                    raise _Bad("a real server twice")
                members[key][real.address, real.port] = real
            else:
                raise _Bad("neither -A nor -a")
        except _Bad as bad:
            _refuse("ipvsadm-save", number, line, str(bad), "ipvsadm -S -n")
    return sort_servers(
        [replace(server, real_servers=tuple(sorted(members[key].values()))) for key, server in servers.items()]
    )


def parse_connections(text: str) -> Mapping[tuple[Key, str, int], int]:
    """/proc/net/ip_vs: the number of connections, active and inactive, of each real server."""
    listed = parse_listing(text)
    return {(key, *real): count for key, counts in listed.items() for real, count in counts.items()}


def parse_listing(text: str) -> Mapping[Key, Mapping[tuple[str, int], int]]:
    """/proc/net/ip_vs: virtual servers, each with the addresses, ports and connection counts of its real servers."""
    servers: dict[Key, dict[tuple[str, int], int]] = {}
    key: Optional[Key] = None
    for number, line in _lines(text):
        words = line.split()
        if words[0] in ("IP", "Prot") or words[:2] == ["->", "RemoteAddress:Port"]:
            continue
        try:
            if words[0] == "->":
                if key is None or len(words) != 6:
                    raise _Bad("not a real server")
                host, port = _hexadecimal(words[1])
                servers[key][host, port] = sum(_number(word, "weight") for word in words[4:])
            elif words[0] == "FWM" and len(words) > 1:
                key = (_hexadecimal_number(words[1]), "", "", 0)
                servers[key] = {}
            elif words[0] in PROTOCOLS and len(words) > 1:
                host, port = _hexadecimal(words[1])
                key = (0, host, words[0], port)
                servers[key] = {}
            else:
                raise _Bad("not a virtual server")
        except _Bad as bad:
            _refuse("/proc/net/ip_vs", number, line, str(bad), "cat /proc/net/ip_vs")
    return servers


def parse_sets(text: str) -> tuple[IpSet, ...]:
    """`ipset save`: sets, sorted by name."""
    made: dict[str, IpSet] = {}
    elements: dict[str, set[str]] = {}
    for number, line in _lines(text):
        try:
            words = line.split()
            if words[0] == "create" and len(words) > 2:
                if words[1] in made:
                    raise _Bad("a set twice")
                made[words[1]], elements[words[1]] = _set(words[1:]), set()
            elif words[0] == "add" and len(words) > 2:
                if words[1] not in made:
                    raise _Bad("an element without its set")
                elements[words[1]].add(_element(made[words[1]], words[2:]))
            else:
                raise _Bad("neither create nor add")
        except _Bad as bad:
            _refuse("ipset save", number, line, str(bad), "ipset save")
    return tuple(replace(ipset, elements=frozenset(elements[name])) for name, ipset in sorted(made.items()))


# --- virtual servers


def _is_of_family(host: str, family: int) -> bool:
    """A virtual server selected by a firewall mark is listed without a family: it belongs to both."""
    return not host or ipaddress.ip_address(host).version == family


def _with_connections(server: VirtualServer, counts: Mapping[tuple[Key, str, int], int]) -> VirtualServer:
    counted = (
        replace(real, connections=counts.get((server.key, real.address, real.port), 0)) for real in server.real_servers
    )
    return replace(server, real_servers=tuple(counted)) if counts else server


def _virtual_server(words: list[str]) -> VirtualServer:
    rest = iter(words)
    mark, host, protocol, port = _service(rest)
    scheduler, persistent_seconds = "", 0
    flags: tuple[str, ...] = ()
    other: list[str] = []
    for option in rest:
        if option == "-s":
            scheduler = _value(rest, option)
        elif option == "-p":
            persistent_seconds = _number(_value(rest, option), "timeout")
        elif option == "-b":
            flags = tuple(sorted(_value(rest, option).split(",")))
        elif option in _FLAG_OPTIONS or (option == "-6" and mark):
            other.append(option)
        elif option in _VALUE_OPTIONS:
            other += ["--pe" if option == "pe" else option, _value(rest, option)]
        else:
            raise _Bad(f"unknown option {option}")
    if not scheduler:
        raise _Bad("no scheduler")
    return VirtualServer(host, port, protocol, scheduler, persistent_seconds, flags, tuple(other), mark)


def _real_server(words: list[str]) -> tuple[Key, RealServer]:
    rest = iter(words)
    key = _service(rest)
    where: Optional[tuple[str, int]] = None
    method, weight = "", 1
    for option in rest:
        if option == "-r":
            where = _host_and_port(_value(rest, option))
        elif option in _METHODS:
            method = _METHODS[option]
        elif option == "-w":
            weight = _number(_value(rest, option), "weight")
        elif option in _TUNNEL_VALUES:
            _value(rest, option)
        elif option not in _TUNNEL_FLAGS and not (option == "-6" and key[0]):
            raise _Bad(f"unknown option {option}")
    if where is None or not method:
        raise _Bad("no address or no forwarding method")
    return key, RealServer(*where, weight=weight, method=method)


def _service(rest: Iterator[str]) -> Key:
    option = next(rest, "")
    if option not in _SERVICE_OPTIONS:
        raise _Bad("no service address")
    value = _value(rest, option)
    if option == "-f":
        return (_number(value, "mark"), "", "", 0)
    host, port = _host_and_port(value)
    return (0, host, _SERVICE_OPTIONS[option], port)


# --- sets


def _set(words: list[str]) -> IpSet:
    name, kind = words[:2]
    values: dict[str, str] = {}
    others: list[str] = []  # netmask, markmask, and options newer than this code
    rest = iter(words[2:])
    for option in rest:
        if option in _SET_VALUES:
            values[option] = _value(rest, option)
        elif option not in _SET_FLAGS:
            others.append(option)
    if others and name in KUBE_TYPES:
        raise _Bad(f"unknown option {others[0]}")
    family = values.get("family", "")
    if family and family not in _SET_FAMILIES:
        raise _Bad(f"unknown family {family}")
    if name in KUBE_TYPES and kind == "bitmap:port" and values.get("range") != "0-65535":
        raise _Bad("a set of ports that lacks some of them")
    maxelem = _number(values["maxelem"], "maxelem") if "maxelem" in values else DEFAULT_MAXELEM
    return IpSet(name, kind, _SET_FAMILIES.get(family, 0), maxelem=maxelem, options=tuple(others))


def _element(of: IpSet, words: list[str]) -> str:
    if of.name not in KUBE_TYPES or of.type not in _ELEMENTS:
        return " ".join(words)
    if len(words) != 1:
        raise _Bad("an element with options")
    return _ELEMENTS[of.type](words[0])


def _port_element(text: str) -> str:
    return str(_number(text, "port"))


def _address_port(text: str) -> str:
    host, port = _parts(text, 2)
    protocol, separator, number = port.partition(":")
    if not separator or protocol.upper() not in PROTOCOLS:
        raise _Bad("no protocol and port")
    return f"{_address(host)},{protocol}:{_number(number, 'port')}"


def _address_port_address(text: str) -> str:
    front, separator, last = text.rpartition(",")
    return f"{_address_port(front)},{_address(last)}"


def _address_port_network(text: str) -> str:
    front, separator, last = text.rpartition(",")
    return f"{_address_port(front)},{_network(last)}"


# --- links


# --- words


def _lines(text: str) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def _refuse(what: str, number: int, line: str, reason: str, command: str) -> NoReturn:
    raise MESSAGES.error("rules-ipvs-dump", what=what, number=number, line=line, reason=reason, command=command)


def _value(rest: Iterator[str], option: str) -> str:
    value = next(rest, None)
    if value is None:
        raise _Bad(f"{option} without its value")
    return value


def _parts(text: str, count: int) -> list[str]:
    parts = text.split(",")
    if len(parts) != count:
        raise _Bad(f"not {count} parts")
    return parts


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) < _LIMITS[what]):
        raise _Bad(f"{text} is no {what}")
    return int(text)


def _address(text: str) -> str:
    try:
        return address(text)
    except ValueError:
        raise _Bad(f"{text} is no address") from None


_ELEMENTS: Mapping[str, Callable[[str], str]] = {
    "bitmap:port": _port_element,
    "hash:ip": _address,
    "hash:ip,port": _address_port,
    "hash:ip,port,ip": _address_port_address,
    "hash:ip,port,net": _address_port_network,
}


def _network(text: str) -> str:
    """A network as ipset prints it: a single address without its length."""
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        raise _Bad(f"{text} is no network") from None
    return str(network.network_address if network.num_addresses == 1 else network)


def _host_and_port(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not separator or bracketed != (":" in host):
        raise _Bad(f"{text} is no address with a port")
    return _address(host[1:-1] if bracketed else host), _number(port, "port")


def _hexadecimal(text: str) -> tuple[str, int]:
    """Parse `0A600001:01BB` or `[2001:0db8:...]:01BB`."""
    host, _separator, port = text.rpartition(":")
    if host.startswith("["):
        return _address(host[1:-1]), _hexadecimal_number(port)
    return str(ipaddress.IPv4Address(_hexadecimal_number(host))), _hexadecimal_number(port)


def _hexadecimal_number(text: str) -> int:
    try:
        if not (text.isalnum() and len(text) <= 8):
            raise ValueError
        return int(text, 16)
    except ValueError:
        raise _Bad(f"{text} is no hexadecimal number") from None
