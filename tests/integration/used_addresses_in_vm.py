# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ipvs does to an address that another machine has, in a real kernel, as test_rules_ipvs.py runs it in a virtual machine:
preflight and service_rules name it before, and the kernel proves them right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.facts import ModeChange, read_facts
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.rules import preflight
from ansible_collections.ballast.kube.plugins.module_utils._rules.engine import ENGINE, SPEC, ServiceRulesRequest
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import IPTABLES, IPVS
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Packet
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import parse_snapshot
from tests.integration.ipvs_in_vm import CONFIG, put
from tests.integration.ipvs_in_vm import Node as Read
from tests.integration.wire import Wire, wire
from tests.unit.rules import given
from tests.unit.rules.strategies import POOLS

POOL = POOLS[4]
OTHER = POOL.other_node  # a machine of the wire, which answers at port 8080


class Node(Read):
    """Without the machine's own /etc, whose name servers and distribution do not count."""

    def read(self, path: str, **options: int) -> bytes | None:
        return None if path.startswith("/etc/") else super().read(path, **options)

    def listdir(self, path: str) -> list[str]:
        return [] if path.startswith("/etc/") else super().listdir(path)


def machine(name: str, address: str) -> given.Object:
    made = given.node(name)
    made["status"] = {"addresses": [{"type": "InternalIP", "address": address}]}
    return made


SNAPSHOT = given.snapshot(
    machine("n1", POOL.primary),
    machine("n2", OTHER),
    given.service(externalIPs=[OTHER]),
    given.endpoint_slice([given.endpoint("10.1.0.5")]),
)


@pytest.fixture(scope="module")
def net() -> Iterator[Wire]:
    with wire("used") as made:
        yield made


@pytest.fixture
def node(net: Wire) -> Node:
    return Node(net.node.namespace)


def test_preflight_to_ipvs_names_it(node: Node) -> None:
    change = ModeChange(
        from_mode=IPTABLES,
        to_mode=IPVS,
        config={"mode": IPTABLES},
        new_config={"mode": IPVS},
        node_name="n1",
        snapshot=SNAPSHOT,
    )
    found = {check.id: check.found for check in preflight(read_facts(node, change))}
    assert found["preflight-ipvs-node-address"] == (f"{OTHER} of Node n2: externalIPs of Service default/web",)


def test_service_rules_refuses_to_bind_it(node: Node) -> None:
    params = {name: spec.get("default") for name, spec in SPEC.items()}
    asked = {**params, "state": "present", "backend": IPVS, "snapshot": SNAPSHOT, "node_name": "n1"}
    desired = ServiceRulesRequest.from_params(asked, node)
    with pytest.raises(BallastError) as caught:
        ENGINE.plan(desired, ENGINE.observe(Context(desired, node)))
    assert caught.value.id == "rules-ipvs-address-in-use"


def test_once_it_is_bound_the_other_machine_is_lost(net: Wire, node: Node) -> None:
    """To the port of the Service, and to all others of the address."""
    packet = Packet(POOL.primary, OTHER, 8080, "TCP", node_local=True)
    assert net.send([packet]) == [f"{OTHER}:8080 from {POOL.primary}"]
    view = parse_snapshot(SNAPSHOT, node_name="n1", node_ips=[POOL.primary]).view(4)
    put(node, compile_rules(view, CONFIG), 4)
    try:
        assert not net.send([packet])[0].startswith(OTHER)
    finally:
        put(node, None, 4)
    assert net.send([packet]) == [f"{OTHER}:8080 from {POOL.primary}"]
