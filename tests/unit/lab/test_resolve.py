# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ipaddress
import json
from collections import Counter
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import TAINT
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._core.text.quantity import parse_quantity
from ansible_collections.ballast.kube.plugins.module_utils._lab.parts import parts
from ansible_collections.ballast.kube.plugins.module_utils._lab.resolve import HostFacts
from tests.unit.lab import given as g

Network = ipaddress.IPv4Network
COUNTS = st.integers(min_value=1, max_value=26)
TARGETS = st.sampled_from(["host", "vm"])


def by_name(lab: dict[str, Any], *keys: str) -> dict[str, tuple[Any, ...]]:
    return {node["name"]: tuple(node[key] for key in keys) for node in lab["nodes"]}


@given(count=COUNTS, target=TARGETS, hosts=st.integers(min_value=2, max_value=16))
def test_addresses_are_unique_and_inside_networks_that_do_not_overlap(count: int, target: str, hosts: int) -> None:
    lab = g.lab(nodes=count, target=target, hosts=hosts)
    nodes = lab["nodes"]
    assert len({node["address"] for node in nodes}) == len(nodes) == count
    inside = {host["name"]: ipaddress.IPv4Interface(host["gateway"]) for host in lab["hosts"]}
    for node in nodes:
        address = ipaddress.IPv4Address(node["address"])
        assert address in inside[node["host"]].network
        assert address != inside[node["host"]].ip
        assert Network(node["pod_cidr"]).subnet_of(Network(lab["pod_cidr"]))
    networks = [Network(node["pod_cidr"]) for node in nodes] + [Network(lab["node_cidr"]), Network(lab["service_cidr"])]
    networks += [one.network for one in inside.values()] if target == "vm" else []
    assert not any(one.overlaps(other) for n, one in enumerate(networks) for other in networks[:n])
    spread = Counter(node["host"] for node in nodes)
    counts = [spread.get(host["name"], 0) for host in lab["hosts"]]
    assert max(counts) - min(counts) <= 1
    assert len({host["address"] for host in lab["hosts"]}) == len(lab["hosts"])


@given(first=COUNTS, second=COUNTS, third=COUNTS, target=TARGETS)
def test_a_node_keeps_its_address_as_long_as_it_is_in_the_lab(first: int, second: int, third: int, target: str) -> None:
    one = g.lab(nodes=first, target=target)
    two = g.lab(one, nodes=second, target=target)
    three = g.lab(two, nodes=third, target=target)
    for before, after in ((one, two), (two, three)):
        earlier, later = (by_name(lab, "address", "pod_cidr", "host") for lab in (before, after))
        assert {name: later[name] for name in later if name in earlier} == {
            name: earlier[name] for name in earlier if name in later
        }
        assert {key: before[key] for key in ("node_cidr", "pod_cidr", "gateway", "bridge")} == {
            key: after[key] for key in ("node_cidr", "pod_cidr", "gateway", "bridge")
        }


@given(count=COUNTS, target=TARGETS)
def test_a_resolved_lab_resolves_to_itself(count: int, target: str) -> None:
    lab = g.lab(nodes=count, target=target)
    again = g.lab(json.loads(json.dumps(lab)), nodes=count, target=target)
    assert json.dumps(again, sort_keys=True) == json.dumps(lab, sort_keys=True)


@given(shares=st.lists(st.fractions(min_value=0, max_value=1, max_denominator=99).filter(bool), min_size=1, max_size=8))
def test_shares_never_exceed_the_host(shares: list[Any]) -> None:
    topology = {"nodes": [{"name": f"n{n}", "share": f"{s.numerator}/{s.denominator}"} for n, s in enumerate(shares)]}
    found = g.errors_of(lambda: g.lab(topology=topology))
    if sum(shares) > 1:
        assert {id for id, _path in found} <= {"lab-shares"}
    else:
        assert found == []
        lab = g.lab(topology=topology)
        assert sum(int(node["cpu"].rstrip("m")) for node in lab["nodes"]) <= g.FACTS.cpu_millis
        assert sum(int(node["memory"]) for node in lab["nodes"]) <= g.FACTS.memory_bytes - g.GIB
    if sum(shares) >= 1.01:
        assert found != []


def test_memory_that_nobody_asks_for_is_divided_equally() -> None:
    topology = {
        "nodes": [
            {"name": "a", "share": "1/3"},
            {"name": "b", "memory": "2Gi", "cpu": "1500m"},
            {"name": "c"},
            {"name": "d"},
        ]
    }
    lab = g.lab(topology=topology)
    assert by_name(lab, "cpu", "memory") == {
        "a": ("1333m", str(5 * g.GIB)),
        "b": ("1500m", str(2 * g.GIB)),
        "c": (None, str(4 * g.GIB)),
        "d": (None, str(4 * g.GIB)),
    }


def test_with_balloons_cpu_is_divided_too() -> None:
    topology = {"balloons": True, "nodes": [{"name": "a", "cpu": "1"}, {"name": "b"}, {"name": "c"}]}
    assert by_name(g.lab(topology=topology), "cpu") == {"a": ("1000m",), "b": ("1500m",), "c": ("1500m",)}


@given(
    count=st.integers(min_value=1, max_value=8),
    sizes=st.dictionaries(
        st.sampled_from([f"n{n}" for n in range(1, 9)]),
        st.fixed_dictionaries({}, optional={"cpu": st.just("400m"), "memory": st.sampled_from(["1Gi", "1500Mi"])}),
    ),
)
def test_a_size_given_later_stands_over_the_topology_and_the_others_divide_the_rest(
    count: int, sizes: dict[str, dict[str, str]]
) -> None:
    lab = g.lab(nodes=count, sizes=sizes)
    assert lab["balloons"] == bool(sizes)
    for node in lab["nodes"]:
        size = sizes.get(node["name"], {})
        if "cpu" in size:
            assert node["cpu"] == "400m"
        if "memory" in size:
            assert int(node["memory"]) == parse_quantity(size["memory"]).whole
    if sizes:
        found = parts(lab)["balloons"]["localhost"]
        promised = sum(parse_quantity(row["target"]["memory"]).whole for row in found["nodes"])
        assert promised + parse_quantity(found["reserve"]["memory"]).whole <= g.FACTS.memory_bytes
        assert sum(parse_quantity(row["target"]["cpu"]).thousandths for row in found["nodes"]) <= g.FACTS.cpu_millis


def test_a_lab_without_balloons_has_none() -> None:
    lab = g.lab(nodes=2)
    assert parts(lab)["balloons"] == {"localhost": None}
    assert [row["startup_taints"] for row in parts(lab)["hosts"]["localhost"]["instances"]] == [[], []]


def test_new_nodes_of_a_lab_with_balloons_register_with_the_startup_taint() -> None:
    lab = g.lab(nodes=1, balloons=True)
    [row] = parts(lab)["hosts"]["localhost"]["instances"]
    assert row["startup_taints"] == [{"key": TAINT, "value": "", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    "topology",
    [
        {"nodes": [{"name": "a", "cpu": "3"}, {"name": "b", "cpu": "1001m"}]},
        {"nodes": [{"name": "a", "memory": "16Gi"}]},
        {"nodes": [{"name": "a", "share": "1/1"}, {"name": "b"}]},  # nothing is left for the second
        {"balloons": True, "nodes": [{"name": "a", "cpu": "4"}, {"name": "b"}]},  # each promises CPU
    ],
)
def test_more_than_the_host_has_is_refused(topology: dict[str, Any]) -> None:
    [(id, text)] = g.errors_of(lambda: g.lab(topology=topology))
    assert id == "lab-shares"
    assert text.startswith("the nodes of host localhost request ")


@pytest.mark.parametrize(("share", "found"), [("1/120", []), ("1/121", [("lab-value", "nodes.a.share")])])
def test_a_share_is_enough_for_a_kubelet(share: str, found: list[tuple[str, str]]) -> None:
    assert g.errors_of(lambda: g.lab(topology={"nodes": [{"name": "a", "share": share}]})) == found


@pytest.mark.parametrize(("memory", "is_enough"), [("300Mi", False), ("301Mi", True)])
def test_with_balloons_a_node_has_memory_for_pods(memory: str, is_enough: bool) -> None:
    nodes = [{"name": "a", "memory": memory}]
    assert g.errors_of(lambda: g.lab(topology={"nodes": nodes})) == []
    found = g.errors_of(lambda: g.lab(topology={"nodes": nodes, "balloons": True}))
    assert found == ([] if is_enough else [("lab-value", "nodes.a.memory")])
    assert g.errors_of(lambda: g.lab(sizes={"n2": {"memory": memory}})) == (
        [] if is_enough else [("lab-value", "nodes.n2.memory")]
    )


def test_a_second_lab_gets_other_networks() -> None:
    first = g.lab(target="vm")
    used = [
        first["node_cidr"],
        first["pod_cidr"],
        *(str(ipaddress.IPv4Interface(h["gateway"]).network) for h in first["hosts"]),
    ]
    second = g.lab(facts=g.facts(*used), target="vm", name="two")
    assert (first["node_cidr"], first["pod_cidr"]) == ("10.97.0.0/24", "10.128.0.0/16")
    assert (second["node_cidr"], second["pod_cidr"], second["hosts"][0]["gateway"]) == (
        "10.97.1.0/24",
        "10.129.0.0/16",
        "10.98.1.1/28",
    )
    assert second["bridge"] != first["bridge"]


@pytest.mark.parametrize("used", ["10.97.0.0/30", "10.128.77.0/24", "10.98.0.240/28"])
def test_networks_of_the_host_are_avoided_whichever_they_meet(used: str) -> None:
    assert g.lab(facts=g.facts(used), target="vm")["node_cidr"] == "10.97.1.0/24"


def test_networks_that_are_asked_for_are_used_and_the_others_keep_away_from_them() -> None:
    asked = {"node_cidr": "192.168.7.0/24", "service_cidr": "10.128.0.0/16"}
    lab = g.lab(topology=asked, target="vm")
    assert (lab["node_cidr"], lab["service_cidr"], lab["pod_cidr"]) == (
        "192.168.7.0/24",
        "10.128.0.0/16",
        "10.129.0.0/16",
    )
    again = g.lab(lab, topology=asked, target="vm")
    assert again["hosts"] == lab["hosts"]
    host = g.lab(
        topology={"node_cidr": "192.168.7.0/24", "pod_cidr": "172.16.0.0/16"},
        facts=g.facts("10.97.0.0/16", "10.98.0.0/16"),
    )
    assert host["node_cidr"] == "192.168.7.0/24", "the network inside virtual machines matters to them alone"


def test_no_free_network_is_told_with_the_way_out() -> None:
    with pytest.raises(BallastError) as caught:
        g.lab(facts=g.facts("10.96.0.0/11", "10.128.0.0/9"), topology={"service_cidr": "172.20.0.0/16"})
    assert caught.value.id == "lab-no-free-network"
    assert "node_cidr and pod_cidr" in caught.value.remedy


@pytest.mark.parametrize(
    ("topology", "path"),
    [
        ({"node_cidr": "192.168.1.0/24"}, "node_cidr"),
        ({"pod_cidr": "192.168.0.0/16"}, "pod_cidr"),
        ({"service_cidr": "192.168.1.128/26"}, "service_cidr"),
        ({"node_cidr": "10.96.3.0/24"}, "node_cidr"),
        ({"node_cidr": "172.16.1.0/24", "pod_cidr": "172.16.0.0/16"}, "pod_cidr"),
        (
            {"nodes": [{"name": "a", "pod_cidr": "10.5.0.0/24"}, {"name": "b", "pod_cidr": "10.5.0.0/25"}]},
            "nodes.b.pod_cidr",
        ),
        ({"nodes": [{"name": "a", "pod_cidr": "10.97.0.0/25"}]}, "nodes.a.pod_cidr"),
        ({"nodes": [{"name": "a", "pod_cidr": "10.96.1.0/24"}]}, "nodes.a.pod_cidr"),
        ({"nodes": [{"name": "a", "pod_cidr": "192.168.1.0/24"}]}, "nodes.a.pod_cidr"),
    ],
)
def test_networks_that_overlap_are_told(topology: dict[str, Any], path: str) -> None:
    found = g.errors_of(lambda: g.lab(topology=topology, facts=g.facts("192.168.1.0/24")))
    assert found == [("lab-overlap", path)]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"target": "vm"}, "target"),
        ({"topology": {"service_cidr": "10.95.0.0/16"}}, "service_cidr"),
        ({"topology": {"node_cidr": "10.1.0.0/24"}}, "node_cidr"),
        ({"topology": {"kube_proxy": "daemonset"}}, "kube_proxy"),
        ({"topology": {"pod_cidr": "10.1.0.0/16"}}, "pod_cidr"),
        ({"topology": {"control_planes": 3}}, "control_planes"),
    ],
)
def test_what_a_running_lab_cannot_change_is_refused(changes: dict[str, Any], path: str) -> None:
    assert ("lab-fixed", path) in g.errors_of(lambda: g.lab(g.lab(), **changes))


def test_what_programs_are_given_is_of_the_topology() -> None:
    topology = {
        "api_server": {"event-ttl": "3h"},
        "feature_gates": {"SomeGate": True},
        "defaults": {"kubelet": {"maxPods": 30, "serializeImagePulls": False}},
        "nodes": [{"name": "a"}, {"name": "b", "kubelet": {"maxPods": 50}}],
    }
    made = g.lab(topology=topology)
    assert made["arguments"] == {"api_server": {"event-ttl": "3h"}, "controller_manager": {}, "scheduler": {}}
    assert made["feature_gates"] == {"SomeGate": True}
    assert [node["kubelet"] for node in made["nodes"]] == [
        {"maxPods": 30, "serializeImagePulls": False},
        {"maxPods": 50, "serializeImagePulls": False},
    ]


def test_mirrors_are_those_of_the_topology_for_every_host() -> None:
    mirrors = {"docker.io": ["https://mirror.example"]}
    made = g.lab(topology={"registry_mirrors": mirrors})
    assert parts(made)["registry_mirrors"] == made["registry_mirrors"] == mirrors
    assert parts(g.lab())["registry_mirrors"] == {}


def test_published_ports_lead_to_the_first_node() -> None:
    made = g.lab(topology={"publish": ["8080:30080", "53:30053/udp"]})
    address = made["nodes"][0]["address"]
    assert parts(made)["publish"] == [
        {"port": 8080, "protocol": "tcp", "address": address, "to_port": 30080},
        {"port": 53, "protocol": "udp", "address": address, "to_port": 30053},
    ]
    del made["publish"]  # a record of an earlier version
    assert parts(made)["publish"] == []


@given(count=COUNTS, target=TARGETS)
def test_no_address_of_the_lab_is_asked_by_a_proxy(count: int, target: str) -> None:
    far = {"name": "far", "pod_cidr": "172.20.7.0/24"}
    made = g.lab(topology={"nodes": [far]}, nodes=count, target=target)
    found = parts(made)["no_proxy"]
    networks = [Network(entry) for entry in found if "/" in entry]
    addresses = [made["control_plane"]["address"], *(host["address"] for host in made["hosts"])]
    addresses += [node["address"] for node in made["nodes"]]
    addresses += [str(Network(node["pod_cidr"])[1]) for node in made["nodes"]]
    addresses += [str(Network(made["service_cidr"])[1])]
    assert [text for text in addresses if not any(ipaddress.ip_address(text) in network for network in networks)] == []
    assert {"localhost", "127.0.0.1", ".svc", ".cluster.local"} < set(found)


def test_audit_and_encryption_are_those_of_the_topology() -> None:
    made = g.lab(topology={"audit": "Metadata", "encryption": "secretbox"})
    assert (made["audit"], made["encryption"]) == ("Metadata", "secretbox")
    plain = g.lab(made)
    assert (plain["audit"], plain["encryption"]) == ("none", "none")


def test_members_of_a_control_plane_take_memory_from_the_nodes() -> None:
    single, three = g.lab(), g.lab(topology={"control_planes": 3})
    assert (single["control_plane"]["members"], three["control_plane"]["members"]) == (1, 3)
    taken = [sum(int(node["memory"]) for node in made["nodes"]) for made in (single, three)]
    assert 0 <= taken[0] - taken[1] - 2 * 2**29 < 3 * 2**20
    assert g.lab(three, topology={"control_planes": 3})["control_plane"]["members"] == 3


def test_a_record_from_before_members_has_one() -> None:
    previous = g.lab()
    assert previous["control_plane"].pop("members") == 1
    assert g.lab(previous)["control_plane"]["members"] == 1
    changed = g.errors_of(lambda: g.lab(previous, topology={"control_planes": 3}))
    assert ("lab-fixed", "control_planes") in changed


def test_a_record_from_before_daemonsets_has_services() -> None:
    previous = g.lab()
    assert previous.pop("kube_proxy") == "service"
    assert g.lab(previous)["kube_proxy"] == "service"
    assert ("lab-fixed", "kube_proxy") in g.errors_of(lambda: g.lab(previous, topology={"kube_proxy": "daemonset"}))


def test_more_nodes_than_a_network_has_addresses() -> None:
    big = HostFacts(cpu_millis=4000, memory_bytes=512 * g.GIB, networks=())
    assert len(g.lab(nodes=189, facts=big)["nodes"]) == 189
    for changes in ({"nodes": 190}, {"nodes": 27, "target": "vm", "hosts": 2}):
        [(id, _text)] = g.errors_of(lambda changes=changes: g.lab(facts=big, **changes))  # type: ignore[misc]
        assert id == "lab-too-many-nodes"


def test_pod_networks_that_are_used_up() -> None:
    topology = {"nodes": [{"name": "a", "pod_cidr": "10.128.0.0/16"}, {"name": "b"}]}
    found = g.errors_of(lambda: g.lab(topology=topology))
    assert [id for id, _path in found] == ["lab-no-pod-network"]


def test_nodes_go_where_they_are_told_to() -> None:
    topology = {
        "nodes": [
            {"name": "a", "host": "vm2"},
            {"name": "b", "host": "vm2"},
            {"name": "c"},
            {"name": "d"},
            {"name": "e"},
        ]
    }
    lab = g.lab(topology=topology, target="vm")
    assert by_name(lab, "host") == {"a": ("vm2",), "b": ("vm2",), "c": ("vm1",), "d": ("vm1",), "e": ("vm1",)}
    assert g.errors_of(lambda: g.lab(topology={"nodes": [{"name": "a", "host": "vm9"}]}, target="vm")) == [
        ("lab-value", "nodes.a.host")
    ]


def test_a_node_whose_machine_is_gone_moves_and_keeps_its_pod_network() -> None:
    before = g.lab(nodes=4, target="vm", hosts=4)
    after = g.lab(before, nodes=4, target="vm", hosts=2)
    assert {node["host"] for node in after["nodes"]} == {"vm1", "vm2"}
    assert by_name(before, "pod_cidr") == by_name(after, "pod_cidr")
    assert len({node["address"] for node in after["nodes"]}) == 4


def test_parts_of_a_lab_on_this_host() -> None:
    found = parts(
        g.lab(
            nodes=2,
            topology={
                "nodes": [{"name": "n1", "pod_cidr": "172.16.9.0/24"}, {"name": "n2", "proxy_backend": "ballast"}]
            },
        )
    )
    assert found["credentials"] == [
        {"name": "n1", "addresses": ["10.97.0.11"]},
        {"name": "n2", "addresses": ["10.97.0.12"], "service_proxy": True},
    ]
    assert found["machines"] == []
    assert set(found["hosts"]) == {"localhost"}
    here = found["hosts"]["localhost"]
    assert [one["name"] for one in here["instances"]] == ["n1", "n2"]
    assert here["routes"] == []
    assert here["masqueraded"] == ["10.97.0.0/24", "10.128.0.0/16", "172.16.9.0/24"], (
        "also pods outside the lab's network"
    )


def test_parts_of_a_lab_on_machines() -> None:
    lab = g.lab(nodes=3, target="vm", hosts=2)
    found = parts(lab)
    assert found["machines"] == [
        {"name": "vm1", "address": "10.97.0.201/24", "gateway": "10.97.0.1", "memory_mib": 2048},
        {"name": "vm2", "address": "10.97.0.202/24", "gateway": "10.97.0.1", "memory_mib": 1408},
    ]
    pods = {node["name"]: node["pod_cidr"] for node in lab["nodes"]}
    to_vm1 = [{"to": to, "via": "10.97.0.201"} for to in ("10.98.0.0/28", pods["n1"], pods["n3"])]
    to_vm2 = [{"to": to, "via": "10.97.0.202"} for to in ("10.98.0.16/28", pods["n2"])]
    assert found["hosts"]["localhost"]["routes"] == to_vm1 + to_vm2
    assert found["hosts"]["localhost"]["instances"] == []
    assert found["hosts"]["vm1"]["routes"] == to_vm2
    assert found["hosts"]["vm1"]["masqueraded"] == []
    assert found["hosts"]["localhost"]["masqueraded"] == [
        "10.97.0.0/24",
        "10.128.0.0/16",
        "10.98.0.0/28",
        "10.98.0.16/28",
    ]


def test_the_record_is_json_without_surprises() -> None:
    previous: Optional[dict[str, Any]] = g.lab(nodes=2)
    assert json.loads(json.dumps(previous)) == previous
