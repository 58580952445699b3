# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a packet is in an ipset, whatever the set holds: cases/ has those of real nodes."""

from __future__ import annotations

import ipaddress
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._audit.tracing.hook_view import HookView
from ansible_collections.ballast.kube.plugins.module_utils._audit.tracing.ipsets import IpSets, SetNotKnown
from ansible_collections.ballast.kube.plugins.module_utils._audit.tracing.packet_state import State
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import MatchSet
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import IpSet
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Packet, Surroundings

CLIENT, PORT = "192.0.2.77", 80
FAMILIES = {4: "10.96.0.1", 6: "fd00:96::1"}


def is_in(*sets: IpSet, sides: str = "dst", family: int = 4, protocol: str = "TCP", other_source: bool = False) -> bool:
    """Of the first set."""
    packet = Packet(CLIENT if family == 4 else "2001:db8::77", FAMILIES[family], PORT, protocol)
    view = HookView(packet, Surroundings(()), "prerouting", -100, other_source)
    return IpSets(sets).is_in(MatchSet(sets[0].name, tuple(sides.split(","))), view, State(packet.destination, PORT))


def held(kind: str, *elements: str, family: int = 4, name: str = "s") -> IpSet:
    return IpSet(name, kind, family, frozenset(elements))


@pytest.mark.parametrize(
    ("ipset", "sides", "expected"),
    [
        (held("hash:ip", CLIENT), "src", True),
        (held("hash:ip", CLIENT), "dst", False),
        (held("hash:net", "10.0.0.0/8", "10.96.0.0/16 nomatch"), "dst", False),
        (held("hash:net", "10.0.0.0/8 nomatch", "10.96.0.0/16"), "dst", True),
        (held("hash:net", "10.96.0.1"), "dst", True),
        (held("hash:net", "0.0.0.0/1", "128.0.0.0/1"), "src", True),
        (held("hash:net,port", "10.0.0.0/8,tcp:80"), "dst,dst", True),
        (held("hash:net,port", "10.0.0.0/8,udp:80"), "dst,dst", False),
        (held("hash:net,port", "10.96.0.0/16,tcp:81", "10.0.0.0/8,tcp:80"), "dst,dst", True),
        (held("hash:ip,port,ip", f"10.96.0.1,tcp:80,{CLIENT}"), "dst,dst,src", True),
        (held("hash:ip,port,net", "10.96.0.1,tcp:80,192.0.2.0/24"), "dst,dst,src", True),
        (held("hash:ip,port,net", "10.96.0.1,tcp:80,192.0.3.0/24"), "dst,dst,src", False),
        (held("bitmap:ip", "10.96.0.1"), "dst", True),
        (held("bitmap:port", "80", family=0), "dst", True),
        (held("hash:ip,port", "10.96.0.2,tcp:80"), "dst,src", False),
        (held("hash:net", "::/1", family=6), "dst", False),
    ],
)
def test_membership(ipset: IpSet, sides: str, expected: bool) -> None:
    assert is_in(ipset, sides=sides) is expected


def test_a_set_of_ports_has_those_of_tcp_and_udp() -> None:
    ports = held("bitmap:port", "80", family=0)
    assert [is_in(ports, protocol=protocol) for protocol in ("TCP", "UDP", "SCTP")] == [True, True, False]


def test_one_member_of_a_list_is_enough() -> None:
    lists = held("list:set", "away", "strange", "here", family=0, name="l")
    away, here = held("hash:ip", "10.96.0.9", name="away"), held("hash:ip", "10.96.0.1", name="here")
    strange = held("hash:mac", family=0, name="strange")
    assert is_in(lists, away, here, strange)
    with pytest.raises(SetNotKnown, match="strange of type hash:mac"):
        is_in(lists, away, held("hash:ip", name="here"), strange)
    with pytest.raises(SetNotKnown, match="the list l"):
        is_in(held("list:set", "l", family=0, name="l"))


def test_a_single_source_is_not_that_of_another_packet() -> None:
    assert not is_in(held("hash:ip", CLIENT), sides="src", other_source=True)
    assert is_in(held("hash:net", "192.0.2.0/24"), sides="src", other_source=True)


@given(family=st.sampled_from((4, 6)), length=st.integers(1, 128), number=st.integers(0, 2**128 - 1))
def test_a_network_has_its_addresses(family: int, length: int, number: int) -> None:
    bits = 32 if family == 4 else 128
    address = ipaddress.ip_address(FAMILIES[family])
    network = ipaddress.ip_network((number % 2**bits if number % 2 else int(address), min(length, bits)), strict=False)
    if network.version == family:
        assert is_in(held("hash:net", str(network), family=family), family=family) is (address in network)


@given(
    kind=st.sampled_from(("hash:ip", "hash:net", "hash:net,port", "hash:ip,port,net", "bitmap:port", "list:set")),
    element=st.sampled_from(("10.0.0.1/24", "fd00::/64", '"x"', "a,b", "10.0.0.0/8,tcp:80,1", "300", ",", "10.96.0.1"))
    | st.text('0123456789abcdef.:,/ "nomatch', min_size=1),
    sides=st.sampled_from(("dst", "src", "dst,dst", "dst,src", "dst,dst,src")),
)
@example(kind="hash:net", element="fd00::/64", sides="dst")
def test_whatever_is_in_a_set_there_is_an_answer_or_none_is_known(kind: str, element: str, sides: str) -> None:
    with suppress(SetNotKnown):
        assert is_in(held(kind, element), sides=sides) in (True, False)
