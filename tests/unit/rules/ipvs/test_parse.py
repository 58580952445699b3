# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import (
    SET_TYPES,
    IpSet,
    RealServer,
    VirtualServer,
    set_name,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.parse import (
    parse_connections,
    parse_links,
    parse_servers,
    parse_sets,
)

SERVERS = """\
-A -t 10.96.0.1:443 -s rr
-a -t 10.96.0.1:443 -r 192.168.1.10:6443 -m -w 1
-A -u 10.96.0.10:53 -s mh -p 10800 -b mh-port
-a -u 10.96.0.10:53 -r 10.1.1.6:53 -m -w 1
-a -u 10.96.0.10:53 -r 10.1.0.5:53 -m -w 0
-A --sctp-service [fd00:96::10]:53 -s rr
-a --sctp-service [fd00:96::10]:53 -r [fd00:1::5]:53 -m -w 1
-A -f 7 -s wlc -p 300 -M 255.255.255.0 --pe sip -o
-a -f 7 -r 10.9.9.9:0 -g -w 100
-A -t 10.7.0.1:80 -s wrr
-a -t 10.7.0.1:80 -r 10.9.9.8:80 -i -w 3 --tun-type ipip
"""


def test_ipvsadm_save() -> None:
    found = {one.text: one for one in parse_servers(SERVERS)}
    assert found["10.96.0.1:443/TCP"] == VirtualServer(
        "10.96.0.1", 443, "TCP", real_servers=(RealServer("192.168.1.10", 6443),)
    )
    assert found["10.96.0.10:53/UDP"] == VirtualServer(
        "10.96.0.10",
        53,
        "UDP",
        scheduler="mh",
        persistent_seconds=10800,
        flags=("mh-port",),
        real_servers=(RealServer("10.1.0.5", 53, weight=0), RealServer("10.1.1.6", 53)),
    )
    assert found["[fd00:96::10]:53/SCTP"].real_servers == (RealServer("fd00:1::5", 53),)
    assert found["mark 7"].other == ("-M", "255.255.255.0", "--pe", "sip", "-o")
    assert found["mark 7"].real_servers[0].method == "route"
    assert found["10.7.0.1:80/TCP"].real_servers == (RealServer("10.9.9.8", 80, weight=3, method="tunnel"),)
    assert parse_servers("") == ()


CONNECTIONS = """\
IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr persistent 10800 FFFFFFFF
  -> C0A8010A:192B      Masq    1      3          4
TCP  [fd00:0096:0000:0000:0000:0000:0000:0001]:0050 rr
  -> [fd00:0001:0000:0000:0000:0000:0000:0005]:1F90      Masq    1      0          2
FWM  00000007 wlc
  -> 0A090909:0000      Route   100    1          0
"""  # fmt: skip


def test_the_kernels_own_listing_has_the_connections() -> None:
    assert parse_connections(CONNECTIONS) == {
        ((0, "10.96.0.1", "TCP", 443), "192.168.1.10", 6443): 7,
        ((0, "fd00:96::1", "TCP", 80), "fd00:1::5", 8080): 2,
        ((7, "", "", 0), "10.9.9.9", 0): 1,
    }


SETS = """\
create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536 bucketsize 12 initval 0x87822749
add KUBE-CLUSTER-IP 10.96.0.1,tcp:443
add KUBE-CLUSTER-IP 10.96.0.10,udp:53
create KUBE-6-LOAD-BALANCER-SOURCE-CID hash:ip,port,net family inet6 hashsize 1024 maxelem 65536
add KUBE-6-LOAD-BALANCER-SOURCE-CID 2001:db8:198::10,tcp:80,2001:db8:16::/48
add KUBE-6-LOAD-BALANCER-SOURCE-CID 2001:db8:198::10,tcp:80,2001:DB8:17::5/128
create KUBE-NODE-PORT-TCP bitmap:port range 0-65535
add KUBE-NODE-PORT-TCP 30080
create cali40s:abc hash:net family inet hashsize 1024 maxelem 1048576 timeout 600 comment
add cali40s:abc 10.0.0.0/8 timeout 12 nomatch comment "not ours"
"""


def test_ipset_save() -> None:
    found = {one.name: one for one in parse_sets(SETS)}
    assert found["KUBE-CLUSTER-IP"] == IpSet(
        "KUBE-CLUSTER-IP", "hash:ip,port", 4, frozenset({"10.96.0.1,tcp:443", "10.96.0.10,udp:53"})
    )
    assert found["KUBE-6-LOAD-BALANCER-SOURCE-CID"].elements == {
        "2001:db8:198::10,tcp:80,2001:db8:16::/48",
        "2001:db8:198::10,tcp:80,2001:db8:17::5",
    }
    assert found["KUBE-NODE-PORT-TCP"].elements == {"30080"}
    assert found["cali40s:abc"].elements == {'10.0.0.0/8 timeout 12 nomatch comment "not ours"'}
    assert found["cali40s:abc"].maxelem == 1048576


def test_names_of_ipv6_sets_are_cut_and_stay_apart() -> None:
    names = [set_name(name, 6) for name in SET_TYPES]
    assert "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS" in names
    assert max(map(len, names)) == 31
    assert len(set(names)) == len(names)


def test_ip_address_show() -> None:
    listed = [
        {},
        {"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8}]},
        {"ifname": "kube-ipvs0", "operstate": "DOWN", "addr_info": [{"local": "FD00:96::1"}, {"local": "10.96.0.1"}]},
        {"ifname": "eth0"},
    ]
    assert parse_links(json.dumps(listed)) == (
        ("lo", ("127.0.0.1",)),
        ("kube-ipvs0", ("fd00:96::1", "10.96.0.1")),
        ("eth0", ()),
    )


@pytest.mark.parametrize(
    "line",
    [
        "-A -t 10.0.0.1:80",
        "-A -t 10.0.0.1 -s rr",
        "-A -t fd00::1:80 -s rr",
        "-A -t 10.0.0.1:70000 -s rr",
        "-A -t web:http -s rr",
        "-A -x 10.0.0.1:80 -s rr",
        "-A -t 10.0.0.1:80 -s",
        "-A -t 10.0.0.1:80 -s rr --new-option",
        "-A -t 10.0.0.1:80 -s rr -p soon",
        "-a -t 10.0.0.9:80 -r 10.0.0.2:80 -m -w 1",
        "-D -t 10.0.0.1:80",
        "-A",
    ],
)
def test_a_line_that_ipvsadm_does_not_print_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(BallastError) as caught:
        parse_servers("-A -t 10.0.0.8:80 -s rr\n" + line)
    assert caught.value.id == "rules-ipvs-dump"
    assert "line 2" in str(caught.value)
    assert line in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "add KUBE-CLUSTER-IP 10.0.0.1,tcp:80",
        "create KUBE-CLUSTER-IP",
        "create x hash:ip family inet5",
        "create x hash:ip family",
        "create KUBE-CLUSTER-IP hash:ip,port sesame",
        "create x hash:ip maxelem many",
        "create KUBE-NODE-PORT-TCP bitmap:port range 0-1024",
        "add p 70000",
        "add p 80 81",
        "swap a b",
        "create p bitmap:port range 0-65535",
    ],
)
def test_a_line_that_ipset_does_not_print_is_refused(line: str) -> None:
    given_before = "create KUBE-NODE-PORT-UDP bitmap:port range 0-65535\n"
    line = line.replace(" p ", " KUBE-NODE-PORT-UDP ")
    with pytest.raises(BallastError) as caught:
        parse_sets(given_before + line)
    assert caught.value.id == "rules-ipvs-dump"
    assert "line 2" in str(caught.value)


@pytest.mark.parametrize(
    "element", ["10.0.0.1,80", "10.0.0.1,icmp:8", "10.0.0.1,tcp:80,10.0.0.0/8", "10.0.0.256,tcp:80", "x"]
)
def test_an_element_that_kube_proxy_does_not_add_is_refused(element: str) -> None:
    with pytest.raises(BallastError) as caught:
        parse_sets(f"create KUBE-EXTERNAL-IP hash:ip,port family inet\nadd KUBE-EXTERNAL-IP {element}")
    assert caught.value.id == "rules-ipvs-dump"


@pytest.mark.parametrize(
    "text", ["", "{", "{}", "[1]", '[{"ifname": 1}]', '[{"ifname": "a", "addr_info": [{}]}]', "[" * 9**5]
)
def test_a_listing_of_addresses_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BallastError) as caught:
        parse_links(text)
    assert caught.value.id == "rules-ipvs-addresses"


WORDS = st.sampled_from(
    [*{word for dump in (SERVERS, SETS, CONNECTIONS) for word in dump.split()}, "\n", "-", "[", "9" * 30, "²"]
)


@given(st.one_of(st.text(), st.lists(WORDS).map(" ".join)))
def test_whatever_the_text_there_is_a_value_or_an_error_of_ours(text: str) -> None:
    for parse in (parse_servers, parse_sets, parse_connections, parse_links):
        with suppress(BallastError):
            parse(text)


@given(st.integers(0, len(SERVERS)), st.integers(0, len(SETS)))
def test_a_dump_that_was_cut(servers: int, sets: int) -> None:
    for parse, text in ((parse_servers, SERVERS[:servers]), (parse_sets, SETS[:sets])):
        with suppress(BallastError):
            parse(text)
