# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The add-on load_balancer: which addresses Services get, what MetalLB is made of, and what its removal leaves of them."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._lab.addons.catalog import ENGINE, AddonsRequest
from ansible_collections.ballast.kube.plugins.module_utils._lab.addons.load_balancer import (
    LOAD_BALANCER,
    address_ranges,
    manifests,
)
from tests.unit.fakes import FakeHost, json_answer
from tests.unit.lab import given as g

_SERVICE = "/api/v1/namespaces/default/services/web"
_OTHER = "/api/v1/namespaces/default/services/plain"
_GIVEN = {"metallb.io/ip-allocated-from-pool": "lab"}
_POOLS = "/apis/metallb.io/v1beta1/namespaces/kube-system/ipaddresspools"


@pytest.mark.parametrize(
    ("network", "addresses"),
    [
        ("10.97.0.0/24", "10.97.0.224-10.97.0.254"),
        ("10.80.0.0/23", "10.80.0.224-10.80.1.254"),
        ("10.80.0.0/16", "10.80.0.224-10.80.255.254"),
    ],
)
def test_services_get_what_no_node_and_no_machine_has(network: str, addresses: str) -> None:
    large = replace(g.FACTS, memory_bytes=200 * g.FACTS.memory_bytes)
    full = g.lab(facts=large, nodes=189, topology={"node_cidr": network})
    assert address_ranges(full) == [addresses]
    first, last = (ipaddress.IPv4Address(word) for word in addresses.split("-"))
    machines = g.lab(target="vm", hosts=16, nodes=16, topology={"node_cidr": network})
    used = [row["address"] for row in (*full["nodes"], *full["hosts"], *machines["hosts"])]
    assert len(used) == 189 + 1 + 16
    assert not [text for text in used if first <= ipaddress.IPv4Address(text) <= last]
    assert last < ipaddress.IPv4Network(network).broadcast_address


@pytest.mark.parametrize("bootstrap", ["lab", "kubeadm"])
def test_virtual_machines_are_refused(bootstrap: str) -> None:
    given = {"target": "vm", "bootstrap": bootstrap}
    assert g.faults(addons=["load_balancer"], **given) == [("lab-value", "addons")]
    assert g.faults(addons=["metrics"], **given) == []


def test_speakers_answer_on_every_node_with_no_more_rights_than_they_need() -> None:
    made = manifests(g.lab(addons=["load_balancer"]), FakeHost())
    controller, speaker = (made[path]["spec"]["template"]["spec"] for path in LOAD_BALANCER.workloads)
    assert speaker["tolerations"] == [{"operator": "Exists"}]
    assert speaker["hostNetwork"]
    assert speaker["containers"][0]["securityContext"]["capabilities"] == {"add": ["NET_RAW"], "drop": ["ALL"]}
    assert controller["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "--webhook-mode=disabled" in controller["containers"][0]["args"]
    assert "secrets" not in json.dumps([row for path, row in made.items() if path.endswith("roles/metallb-controller")])


def test_each_resource_that_the_programs_read_is_defined_before_they_start() -> None:
    made = manifests(g.lab(addons=["load_balancer"]), FakeHost())
    paths = list(made)
    defined = {made[path]["spec"]["names"]["plural"]: path for path in paths if "customresourcedefinitions" in path}
    rules = [rule for row in made.values() for rule in row.get("rules", ())]
    used = {
        name.partition("/")[0] for rule in rules if rule["apiGroups"] == ["metallb.io"] for name in rule["resources"]
    }
    assert used == set(defined)
    first = min(paths.index(path) for path in LOAD_BALANCER.workloads)
    assert max(paths.index(path) for path in defined.values()) < first
    assert paths.index(f"{_POOLS}/lab") > first, "a removal begins with the pool, while the controller runs"
    versions = {version["name"]: version for version in made[defined["bgppeers"]]["spec"]["versions"]}
    assert {name: row["storage"] for name, row in versions.items()} == {"v1beta1": False, "v1beta2": True}


def run(host: FakeHost, *addons: str) -> None:
    options = {"state_dir": f"{g.DIR}/addons", "plane_dir": f"{g.DIR}/plane", "lab": g.lab(addons=list(addons))}
    ctx = Context(AddonsRequest.from_params(options), host)
    ENGINE.apply(ENGINE.plan(ctx.desired, ENGINE.observe(ctx)), ctx)


def machine() -> tuple[FakeHost, dict[str, Any]]:
    """With the add-on, a Service that has an address from it, one without, and a pool that the user made."""
    host, kept = g.machine(), dict[str, Any]()
    g.keep_objects(host, kept)
    run(host, "load_balancer")
    for path, given in ((_SERVICE, _GIVEN), (_OTHER, dict[str, str]())):
        kept[path] = {"metadata": {"namespace": "default", "name": path.rpartition("/")[2], "annotations": given}}
    return host, kept


def test_a_removal_waits_until_metallb_has_taken_the_addresses() -> None:
    host, kept = machine()
    deleted = list[str]()

    def controller() -> None:
        deleted[:] = [path for path in (f"{_POOLS}/lab", *LOAD_BALANCER.workloads) if path not in kept]
        kept[_SERVICE]["metadata"]["annotations"] = {}

    host.on_sleep.append(controller)
    run(host)
    assert deleted == [f"{_POOLS}/lab"], "the controller still ran"
    assert f"{_SERVICE}/status" not in kept
    assert not set(kept) & set(LOAD_BALANCER.workloads)


def test_where_metallb_does_not_run_a_removal_takes_the_addresses_itself() -> None:
    host, kept = machine()
    started = host.monotonic()
    run(host)
    assert kept[f"{_SERVICE}/status"] == {
        "metadata": {"annotations": {"metallb.io/ip-allocated-from-pool": None}},
        "status": {"loadBalancer": None},
    }
    assert f"{_OTHER}/status" not in kept
    assert host.monotonic() - started < 20


def test_pools_that_the_user_made_go_too() -> None:
    host, _kept = machine()
    asked = list[str]()

    def delete(url: str, _body: object) -> Any:
        asked.append(url)
        return json_answer(200, {})

    host.answer(f"{g.API}{_POOLS}", delete, method="DELETE")
    run(host)
    assert asked == [f"{g.API}{_POOLS}", f"{g.API}{_POOLS}/lab"]


def test_an_object_waits_until_its_resource_is_served() -> None:
    host, kept = g.machine(), dict[str, Any]()
    g.keep_objects(host, kept)
    refusals = [404, 404]

    def patch(url: str, body: Any) -> Any:
        if refusals:
            return json_answer(refusals.pop(), {"message": "the server could not find the requested resource"})
        kept[url[len(g.API) :].partition("?")[0]] = json.loads(body)
        return json_answer(201, {})

    host.answer(f"{g.API}{_POOLS}", patch, method="PATCH")
    run(host, "load_balancer")
    assert kept[f"{_POOLS}/lab"]["spec"] == {"addresses": ["10.97.0.224-10.97.0.254"]}
    assert refusals == []
