# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which Services a host reaches: a network and a node port lead to one lab, the first that has them."""

from __future__ import annotations

import ipaddress
import json
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._lab.host_services import (
    Held,
    choose_service_network,
    fence_services,
    node_port_access,
    reach_services,
    read_held,
    service_routes,
)
from ansible_collections.ballast.kube.plugins.module_utils._lab.parts import parts
from ansible_collections.ballast.kube.plugins.module_utils._lab.summary import table
from tests.unit.fakes import FakeHost
from tests.unit.lab import given as g
from tests.unit.lab.test_check import summary

SERVICES, PORTS = "10.96.0.0/16", "30000-32767"
OWN_ROUTES = [
    {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0"},
    {"dst": SERVICES, "gateway": "10.97.0.11", "dev": "ballast-lab"},
]


def lab(**changes: Any) -> dict[str, Any]:
    return {**g.lab(), **changes}


def held(*routes: dict[str, Any], others: tuple[dict[str, Any], ...] = ()) -> Held:
    host = FakeHost()
    host.on("ip", "-j", "-4", "route", "show", answer=json.dumps([*OWN_ROUTES, *routes]), reads=True)
    return read_held(host, lab(), others)


def other(networks: list[str], node_ports: str) -> dict[str, Any]:
    return {"name": "first", "host_services": {"networks": networks, "node_ports": node_ports, "left_out": []}}


def test_a_lab_alone_is_reached_by_its_first_node() -> None:
    one = lab(host_services=reach_services(lab(), held()))
    assert one["host_services"] == {"networks": [SERVICES], "node_ports": PORTS, "left_out": []}
    assert {"to": SERVICES, "via": "10.97.0.11"} in parts(one)["hosts"]["localhost"]["routes"]
    assert parts(one)["node_ports"] == {"address": "10.97.0.11", "ports": PORTS}
    assert f"from here:   Services by {SERVICES}, 127.0.0.1:{PORTS}\n" in table(summary(), one)


@pytest.mark.parametrize(
    ("found", "networks", "node_ports", "left_out"),
    [
        (
            held({"dst": "10.96.0.0/12", "dev": "tun0"}),
            [],
            PORTS,
            [f"{SERVICES}, as this host has a route to 10.96.0.0/12"],
        ),
        (
            held({"dst": "10.96.7.9", "dev": "tun0"}),
            [],
            PORTS,
            [f"{SERVICES}, as this host has a route to 10.96.7.9"],
        ),
        (
            held(others=(other([SERVICES], PORTS),)),
            [],
            "",
            [
                f"{SERVICES}, as the lab first has {SERVICES}",
                f"127.0.0.1:{PORTS}, as the lab first has {PORTS}",
            ],
        ),
        (held({"dst": "0.0.0.0/1", "dev": "tun0"}, {"dst": "128.0.0.0/1", "dev": "tun0"}), [SERVICES], PORTS, []),
        (held(others=(other(["10.193.0.0/16"], "32000-33000"),)), [SERVICES], "", None),
        (held(others=(other([], ""),)), [SERVICES], PORTS, []),
        (held(others=({"name": "first"}, {"name": "vms", "host_services": None})), [SERVICES], PORTS, []),
    ],
)
def test_what_another_has_is_left_out_and_named(
    found: Held, networks: list[str], node_ports: str, left_out: Optional[list[str]]
) -> None:
    reached = reach_services(lab(), found)
    assert reached is not None
    assert (reached["networks"], reached["node_ports"]) == (networks, node_ports)
    if left_out is not None:
        assert reached["left_out"] == left_out
    shown = table(summary(), lab(host_services=reached))
    assert (f"not reached: {', '.join(reached['left_out'])}\n" in shown) is bool(reached["left_out"])
    assert (node_port_access(lab(host_services=reached)) is not None) is bool(node_ports)


@pytest.mark.parametrize(("given_range", "node_ports"), [("31000-31999", "31000-31999"), ("31000+10", ""), (31000, "")])
def test_node_ports_are_those_of_the_api_server(given_range: object, node_ports: str) -> None:
    reached = reach_services(lab(arguments={"api_server": {"service-node-port-range": given_range}}), Held())
    assert reached is not None
    assert reached["node_ports"] == node_ports
    assert len(reached["left_out"]) == (not node_ports)


def test_a_lab_of_virtual_machines_or_of_an_earlier_version_has_no_way_in() -> None:
    assert reach_services(g.lab(target="vm"), Held()) is None
    for record in (lab(host_services=None), g.lab()):
        assert (service_routes(record), node_port_access(record)) == ([], None)
        assert "from here" not in table(summary(), record)


def test_packets_to_services_that_no_node_serves_do_not_leave_the_host() -> None:
    """From a node in a virtual machine they come to this host, which has no way to the Service."""
    record = g.lab(target="vm")
    assert fence_services(record, held({"dst": SERVICES, "type": "unreachable"})) == [SERVICES], (
        "the next run finds its own"
    )
    assert service_routes({**record, "fenced_services": [SERVICES]}) == [{"to": SERVICES}]
    assert fence_services(g.lab(), Held()) == []
    assert fence_services(record, held({"dst": "10.0.0.0/8", "dev": "tun0"})) == [], "somebody is there"


def test_networks_and_node_ports_of_both_families() -> None:
    nodes = [{**node, "address": f"{node['address']},fd00::11"} for node in g.lab()["nodes"]]
    both = lab(service_cidr=f"{SERVICES},fd00:96::/112", nodes=nodes)
    reached = reach_services(both, Held(((ipaddress.ip_network("fd00::/8"), "x"),)))
    assert reached is not None
    assert reached["left_out"] == ["fd00:96::/112, as x"]
    both["host_services"] = reach_services(both, Held())
    assert service_routes(both) == [{"to": SERVICES, "via": "10.97.0.11"}, {"to": "fd00:96::/112", "via": "fd00::11"}]
    assert node_port_access(both) == {"address": "10.97.0.11", "ports": PORTS}


@given(count=st.integers(min_value=0, max_value=64))
def test_service_networks_of_labs_do_not_overlap(count: int) -> None:
    chosen: list[ipaddress.IPv4Network] = []
    for _ in range(count):
        chosen.append(ipaddress.IPv4Network(choose_service_network(chosen)))
    assert not any(one.overlaps(two) for number, one in enumerate(chosen) for two in chosen[:number])
    pods = ipaddress.IPv4Network("10.128.0.0/10")
    assert not any(one.overlaps(pods) for one in chosen)


def test_where_no_service_network_is_free_the_first_is_refused_by_its_name() -> None:
    assert choose_service_network([ipaddress.IPv4Network("10.0.0.0/8")]) == SERVICES
