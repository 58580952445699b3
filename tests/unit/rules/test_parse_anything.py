# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Any JSON value, and good snapshots with something in them changed, give a view or an error, never a traceback."""

from __future__ import annotations

import copy
import ipaddress
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import UserError
from ansible_collections.ballast.kube.plugins.module_utils._rules.addresses import (
    is_plain,
    parse_address,
    parse_network,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import (
    Snapshot,
    parse_snapshot,
    parse_snapshot_text,
)
from tests.unit.rules.given import (
    NODE_IPS,
    Object,
    balancer,
    endpoint,
    endpoint_slice,
    node,
    service,
    service_cidr,
    snapshot,
)

GOOD = snapshot(
    node("n1", **{"topology.kubernetes.io/zone": "a"}),
    service_cidr("10.96.0.0/12"),
    service("dns", clusterIP="10.96.0.10", clusterIPs=["10.96.0.10", "fd00:96::a"], ipFamilies=["IPv4", "IPv6"]),
    balancer(
        {"ip": "203.0.113.1", "ipMode": "VIP"},
        {"hostname": "lb.example.org"},
        externalTrafficPolicy="Local",
        healthCheckNodePort=31000,
        loadBalancerSourceRanges=[" 192.0.2.0/24"],
        sessionAffinity="ClientIP",
        sessionAffinityConfig={"clientIP": {"timeoutSeconds": 60}},
        externalIPs=["198.51.100.1"],
        ports=[{"name": "http", "port": 80, "nodePort": 30080}, {"name": "dns", "port": 53, "protocol": "UDP"}],
    ),
    endpoint_slice(
        [{**endpoint("10.1.0.5"), "hints": {"forZones": [{"name": "a"}]}}, endpoint("10.1.0.6", terminating=True)]
    ),
    endpoint_slice([endpoint("fd00:1::5")], of="dns", family="IPv6"),
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=10)
    | st.sampled_from(["10.0.0.1", "010.0.0.1", "::1", "fe80::1%eth0", "10.0.0.0/8", "None", "Service", "v1", "TCP"])
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*path, index))


PLACES = sorted(places(GOOD), key=str)


def parse(data: object) -> Snapshot | None:
    """None where it is refused, with a message that can be shown."""
    try:
        found = parse_snapshot(data, node_name="n1", node_ips=NODE_IPS)
    except UserError as error:
        str(error).encode()  # neither control signs nor halves of a sign are left for a terminal to meet
        return None
    for family in (4, 6):
        view = found.view(family)
        for one in view.frontends:
            assert not one.address or ipaddress.ip_address(one.address).version == family
            assert 0 < one.port < 65536
        for of in view.services:
            assert list(of.endpoints) == sorted(of.endpoints, key=lambda one: (one.address, one.port))
            assert all(str(ipaddress.ip_address(one.address)) == one.address for one in of.endpoints)
    return found


def test_the_good_one_is_good() -> None:
    found = parse(GOOD)
    assert found is not None
    assert len(found.view(4).services) == 3


@given(data=JSON)
def test_any_value(data: object) -> None:
    parse(data)


@given(items=st.lists(JSON | st.dictionaries(st.sampled_from(["kind", "apiVersion", "metadata", "spec"]), JSON)))
def test_any_items(items: list[Any]) -> None:
    parse({"apiVersion": "v1", "kind": "List", "items": items})


@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), JSON | st.just(...)), min_size=1, max_size=3))
def test_a_good_snapshot_with_something_changed_or_left_out(changes: list[tuple[tuple[Any, ...], object]]) -> None:
    data = copy.deepcopy(GOOD)
    for path, value in changes:
        change(data, path, value)
    parse(data)


def change(data: Object, path: tuple[Any, ...], value: object) -> None:
    *way, last = path
    inner: Any = data
    try:
        for part in way:
            inner = inner[part]
        if value is ...:
            del inner[last]
        else:
            inner[last] = value
    except (KeyError, IndexError, TypeError):
        pass  # an earlier change took the place away


@given(text=st.text() | st.integers(0, 3000).map(lambda length: json.dumps(GOOD)[:length]))
def test_any_text(text: str) -> None:
    try:
        parse_snapshot_text(text, node_name="n1", node_ips=NODE_IPS)
    except UserError as error:
        str(error).encode()


@given(order=st.permutations(GOOD["items"]))
def test_the_order_of_objects_does_not_matter(order: list[Object]) -> None:
    assert parse(snapshot(*order)) == parse(GOOD)


@given(address=st.ip_addresses(v=4))
def test_leading_zeros_change_nothing_of_an_address(address: ipaddress.IPv4Address) -> None:
    padded = ".".join(f"{octet:03d}" for octet in address.packed)
    assert parse_address(padded) == parse_address(str(address)) == (4, str(address))
    assert parse_address(f"::ffff:{padded}") == (4, str(address))


@given(address=st.ip_addresses(v=6))
def test_every_form_of_an_ipv6_address_is_one(address: ipaddress.IPv6Address) -> None:
    mapped = address.ipv4_mapped
    expected = (4, str(mapped)) if mapped else (6, str(address))
    assert parse_address(str(address)) == parse_address(address.exploded.upper()) == expected


@given(address=st.ip_addresses())
def test_special_addresses_are_those_of_the_machine_alone_and_the_short_way_takes_none(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    long = parse_address(str(address))
    assert long is not None
    assert is_plain(long.text) == (long.family == 4 and not long.special)
    parsed = ipaddress.ip_address(long.text)
    octets = parsed.packed
    link_multicast = octets[:3] == b"\xe0\0\0" if long.family == 4 else octets[0] == 0xFF and octets[1] & 0xF == 2
    assert long.special == bool(parsed.is_loopback or parsed.is_unspecified or parsed.is_link_local or link_multicast)
    assert long.loopback == parsed.is_loopback


@given(text=st.text(alphabet="0123456789abcdef.:/% x\x00\ud800", max_size=24))
def test_what_looks_like_an_address_or_network_is_one_or_none(text: str) -> None:
    address, network = parse_address(text), parse_network(text)
    if address is not None:
        assert str(ipaddress.ip_address(address.text)) == address.text
    if network is not None:
        parsed = ipaddress.ip_network(network.text)
        assert (parsed.version, str(parsed), parsed.prefixlen) == network
