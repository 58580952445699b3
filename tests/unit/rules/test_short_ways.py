# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is read a short way, as most objects are alike, is what the long way answers: the same view, or the same faults."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubectl_list import OtherLayout, iterate_items
from ansible_collections.ballast.kube.plugins.module_utils._core.text.decode import Faults, Reader
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, UserError
from ansible_collections.ballast.kube.plugins.module_utils._rules import parse, services, slices
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import Endpoint
from ansible_collections.ballast.kube.plugins.module_utils._rules.reading import WORDS
from tests.unit.rules.given import NODE_IPS, Object, endpoint, endpoint_slice, node, service, snapshot
from tests.unit.rules.test_parse_anything import JSON, change, places

READY = {"ready": True, "serving": True, "terminating": False}


def usual(*addresses: str) -> list[Object]:
    return [{"addresses": [one], "conditions": READY, "nodeName": f"n{at}"} for at, one in enumerate(addresses)]


USUAL = snapshot(
    node(),
    endpoint_slice(usual("10.1.0.5", "10.1.0.6")),
    endpoint_slice([*usual("10.1.0.5"), endpoint("10.1.0.7")], name="web-2"),
    service(),
)
PLACES = sorted(places(USUAL), key=str)
FLAGS = st.sampled_from((True, False, 1, 0, 1.0, None, "true"))
# What differs little from what is usual.
NEAR = st.sampled_from(
    (
        *(None, True, False, 0, 1, 1.0, "", " ", "n1", "n 1", "10.1.0.9", "IPv4"),
        *([], {}, ["10.1.0.9", "x"], ["010.1.0.9"], ["224.0.0.9"], ["fd00::5"], [None], {0: "10.1.0.9"}, ["IPv6"]),
        *({"forZones": [{"name": "a"}]}, {"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}}, {"loadBalancer": 1}),
    )
)
CHANGES = st.lists(st.tuples(st.sampled_from(PLACES), NEAR | JSON | st.just(...)), max_size=3)


def changed(changes: list[tuple[tuple[Any, ...], object]]) -> Object:
    data = copy.deepcopy(USUAL)
    for path, value in changes:
        change(data, path, copy.deepcopy(value))
    return data


def outcome(read: Callable[..., parse.Snapshot], data: object) -> object:
    """The snapshot, or what is said against it."""
    try:
        return read(data, node_name="n1", node_ips=NODE_IPS)
    except UserError as error:
        return str(error)


def reader(value: object, faults: list[BallastError]) -> Reader:
    return Reader(value, Faults(WORDS, "x", faults))


def nothing(*_given: object) -> None:
    """The short way does not know it."""


def nearly(**fields: object) -> st.SearchStrategy[object]:
    """An object that has these fields, some of them otherwise or not at all."""
    kept = {name: st.just(value) | st.just(value) | NEAR for name, value in fields.items()}
    return st.fixed_dictionaries(kept) | st.fixed_dictionaries({}, optional=kept) | JSON


CONDITIONS = st.fixed_dictionaries({name: st.just(flag) | FLAGS for name, flag in READY.items()})
ADDRESSES = st.sampled_from((["10.1.0.5"], ["10.1.0.5", 1], ["10.1.0.05"], ["127.0.0.1"], "10.1.0.5", {0: "10.1.0.5"}))


@settings(max_examples=300)
@given(
    value=nearly(addresses=["10.1.0.5"], conditions=READY, nodeName="n1")
    | st.fixed_dictionaries({"addresses": ADDRESSES, "conditions": CONDITIONS, "nodeName": st.just("n1")}),
    hints=st.none() | NEAR,
)
def test_an_endpoint_that_is_nearly_as_most_are(value: Any, hints: object) -> None:
    if isinstance(value, dict) and hints is not None:
        value = {**value, "hints": hints}
    short = slices._usual_peer(value)
    faults: list[BallastError] = []
    if short is not None:
        assert (short, []) == (slices._peer(reader(value, faults), 4), faults)


@pytest.mark.parametrize("other", [1, 0, None, "", {}])
@pytest.mark.parametrize("name", READY)
def test_a_condition_that_is_no_flag_is_not_taken_for_one(name: str, other: object) -> None:
    for conditions in ({**READY, name: other}, {**READY, name: not READY[name]}):
        assert slices._usual_peer({"addresses": ["10.1.0.5"], "conditions": conditions, "nodeName": "n1"}) is None


@settings(max_examples=300)
@given(
    spec=nearly(ipFamilies=["IPv4"], externalIPs=None, loadBalancerSourceRanges=None),
    status=st.just({"loadBalancer": {}}) | NEAR,
    ips=st.sampled_from((["10.96.0.1"], ["10.96.0.1", "fd00::1"], ["127.0.0.1"], ["fd00::1"], ["010.96.0.1"], [1])),
)
def test_addresses_of_a_service_that_are_nearly_as_most_are(spec: Any, status: object, ips: list[Any]) -> None:
    if not isinstance(spec, dict):
        return
    spec = {name: value for name, value in spec.items() if value is not None}
    short = services._usual_families(spec, {"status": status}, ips)
    faults: list[BallastError] = []
    if short is not None:
        assert (short, []) == (
            services._families(reader({"status": status}, faults), reader(spec, faults), "ClusterIP", ips),
            faults,
        )


def test_the_short_ways_are_taken() -> None:
    _node, one, _other, of = USUAL["items"]
    assert slices._usual_peer(one["endpoints"][0]) == ("10.1.0.5", True, True, False, "n0", (), ())
    assert services._usual_families(of["spec"], of, ["10.96.0.1"]) == {4: ("10.96.0.1", (), (), ())}
    assert list(iterate_items(json.dumps(USUAL), parse_constant=nothing)) == USUAL["items"]


@given(changes=CHANGES)
def test_a_snapshot_that_is_nearly_as_most_are(changes: list[tuple[tuple[Any, ...], object]]) -> None:
    data = changed(changes)
    short = outcome(parse.parse_snapshot, data)
    with patch.object(slices, "_usual_peer", nothing), patch.object(services, "_usual_families", nothing):
        assert short == outcome(parse.parse_snapshot, data)


PORTS = st.tuples(
    st.sampled_from(("http", "", None, 1, True, ["http"], "no name")),
    st.sampled_from(("TCP", "UDP", "", None, "tcp")),
    st.sampled_from((1, True, 1.0, 80, 80.0, 0, False, None, [], 65536)),
    st.sampled_from((0, False, 1, True, 1.0, None, {}, 30080)),
)


@settings(max_examples=300)
@given(values=PORTS)
def test_ports_are_remembered_where_it_makes_no_difference(values: tuple[object, ...]) -> None:
    for read, count in ((slices._port, 3), (services._port, 4)):
        row = dict(zip(("name", "protocol", "port", "nodePort"), values[:count]))
        short: list[BallastError] = []
        long: list[BallastError] = []
        port = read(row, Faults(WORDS, "x", short), "ports[7]")
        assert port == read.__wrapped__(Reader(row, Faults(WORDS, "x", long), "ports[7]"))
        assert [str(fault) for fault in short] == [str(fault) for fault in long]
        assert [type(part) for part in port] == [str, str, *[int] * (count - 2)]


TEXTS = st.builds(
    lambda changes, blanks, order: json.dumps(changed(changes), indent=blanks, sort_keys=order),
    CHANGES,
    st.sampled_from((None, 0, 4)),
    st.booleans(),
)


def whole(text: str) -> object:
    with patch.object(parse, "_usual_objects", nothing):
        return outcome(parse.parse_snapshot_text, text)


@given(text=TEXTS)
def test_a_list_whose_items_are_decoded_one_by_one(text: str) -> None:
    assert outcome(parse.parse_snapshot_text, text) == whole(text)


@given(
    text=TEXTS,
    place=st.integers(0, 4000),
    length=st.integers(0, 30),
    new=st.sampled_from(("", ",", "]", "}", "[", "{", '"', "\\", "NaN", "\x0b", ' , "kind": "List"', ', "items": []')),
)
def test_a_text_that_is_broken_somewhere(text: str, place: int, length: int, new: str) -> None:
    at = place % len(text)
    broken = text[:at] + new + text[at + length :]
    assert outcome(parse.parse_snapshot_text, broken) == whole(broken)


@pytest.mark.parametrize(
    "text",
    [
        '{"apiVersion": "v1", "items": [{}]}',
        '{"apiVersion": "v1", "kind": "List", "items": []}',
        '{"apiVersion": "v1", "kind": "List", "items": [{}], "items": []}',
        '{"apiVersion": "v1", "kind": "List", "items": [{}]} x',
        '{"apiVersion": "v1", "kind": "List", "items": [{},]}',
        '{"apiVersion": "v1", "items": [{}], "kind": "ServiceList"}',
        '{"apiVersion": "v1", "items": [{}], "kind": "List", "metadata": {"continue": "x"}}',
        '{"apiVersion": "v1",\xa0"kind": "List", "items": [{}]}',
    ],
)
def test_another_layout_is_told_to_be_one(text: str) -> None:
    with pytest.raises(OtherLayout):
        list(iterate_items(text, parse_constant=nothing))


ENDPOINTS = st.lists(
    st.builds(
        Endpoint,
        address=st.sampled_from(("10.1.0.10", "10.1.0.9")),
        port=st.sampled_from((80, 443)),
        ready=st.booleans(),
        serving=st.booleans(),
        terminating=st.booleans(),
        node=st.sampled_from(("n1", "n2", "n3")),
    ),
    max_size=4,
)


@given(of_slices=st.lists(ENDPOINTS, max_size=3))
def test_of_each_address_and_port_the_best_endpoint_counts_of_equal_ones_the_first(
    of_slices: list[list[Endpoint]],
) -> None:
    port = slices.SlicePort("http", "TCP", 80)
    made = [slices.Slice("a", f"web-{at}", "web", 4, [port], [found]) for at, found in enumerate(of_slices)]
    best: dict[tuple[str, int], Endpoint] = {}
    for one in [each for found in of_slices for each in found]:
        other = best.setdefault((one.address, one.port), one)
        if (one.terminating, not one.ready, not one.serving) < (other.terminating, not other.ready, not other.serving):
            best[one.address, one.port] = one
    expected = tuple(best[key] for key in sorted(best))
    assert slices.endpoints_of(made[::-1], 4) == ({("a", "web", "http", "TCP"): expected} if of_slices else {})
