# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""service_rules and service_rules_info as a user calls them, against the kernel of a network namespace."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.prune_directories import remove_emptied
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.host.names import MARKER
from tests.integration import adhoc, journal

NAMESPACE = "ballast-test-rules"
VIP, POD, POD6, VIP6 = "10.96.0.10", "10.128.1.5", "fd00:1::5", "fd00:96::10"
CONFIG = {"clusterCIDR": "10.128.0.0/16,fd00:1::/64"}
RECORDS = Path("/run/ballast/service-rules")
BACKENDS = ["nftables", "iptables"]

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nft") is None, reason="only root can make namespaces, and nft is needed"
)


def inside(*argv: str) -> str:
    command = ["ip", "netns", "exec", NAMESPACE, *argv]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.fixture
def namespace() -> Iterator[None]:
    with journal.network_namespace(NAMESPACE):
        for words in (
            "link set lo up",
            "link add eth0 type veth peer name peer0",
            "address add 192.0.2.1/24 dev eth0",
            "address add 2001:db8::1/64 dev eth0 nodad",
            "link set eth0 up",
        ):
            subprocess.run(["ip", "-n", NAMESPACE, *words.split()], check=True)
        # The record of a run that failed here would be taken for that of a later namespace of the same number.
        number = inside("readlink", "/proc/self/ns/net").strip().removeprefix("net:[").removesuffix("]")
        yield
        for path in RECORDS.glob(f"{number}-*.json"):
            path.unlink()
        if RECORDS.is_dir() and [path.name for path in RECORDS.iterdir()] == [MARKER]:
            remove_emptied(LocalHost(), str(RECORDS))


def snapshot(*, endpoints: int = 2, services: int = 1) -> dict[str, Any]:
    items: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1"},
            "status": {
                "addresses": [
                    {"type": "InternalIP", "address": "192.0.2.1"},
                    {"type": "InternalIP", "address": "2001:db8::1"},
                ]
            },
        }
    ]
    for number in range(services):
        vips = [f"10.96.0.{10 + number}", f"fd00:96::{10 + number}"]
        spec = {
            "type": "ClusterIP",
            "clusterIP": vips[0],
            "clusterIPs": vips,
            "ipFamilies": ["IPv4", "IPv6"],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        }
        meta = {"name": f"s{number}", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
        items.append({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})
        for family, first in (("IPv4", "10.128.2."), ("IPv6", "fd00:1::2:")):
            items.append(
                {
                    "apiVersion": "discovery.k8s.io/v1",
                    "kind": "EndpointSlice",
                    "metadata": {
                        "name": f"s{number}-{family.lower()}",
                        "namespace": "default",
                        "labels": {"kubernetes.io/service-name": f"s{number}"},
                    },
                    "addressType": family,
                    "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
                    "endpoints": [
                        {"addresses": [f"{first}{1 + one}"], "conditions": {"ready": True}} for one in range(endpoints)
                    ],
                }
            )
    return {"apiVersion": "v1", "kind": "List", "items": items}


def module(name: str, options: dict[str, Any], *flags: str, fails: bool = False) -> dict[str, Any]:
    return adhoc.module(name, *flags, fails=fails, inside=["ip", "netns", "exec", NAMESPACE], **options)


def rules(backend: str, *flags: str, **options: Any) -> dict[str, Any]:
    given = {"backend": backend, "snapshot": snapshot(), "node_name": "n1", "config": CONFIG, **options}
    return module("service_rules", given, *flags)


def removed(backend: str) -> dict[str, Any]:
    return module("service_rules", {"backend": backend, "state": "absent"})


def machine() -> str:
    """Everything that the modules could change in the namespace."""
    saved = [inside("nft", "list", "ruleset"), inside("sysctl", "net.ipv4.conf.all.route_localnet")]
    return "\n".join(saved)


@pytest.mark.usefixtures("namespace")
@pytest.mark.parametrize("backend", BACKENDS)
def test_present_twice_a_change_and_absent(backend: str) -> None:
    inside("nft", "add table ip other; add chain ip other c { type filter hook forward priority 0; }")
    before = machine()
    planned = rules(backend, "--check", "--diff")
    assert planned["changed"]
    assert planned["operations"]
    assert "+++ after: rules of IPv4" in planned["printed"]
    assert machine() == before, "check mode changes nothing"

    made = rules(backend)
    assert made["operations"] == planned["operations"]
    assert set(made["seconds"]) == {"parse", "observe", "compile", "require", "apply", "verify"}
    again = rules(backend)
    assert (again["changed"], again["operations"]) == (False, {})

    more = rules(backend, snapshot=snapshot(services=2))
    assert 0 < sum(more["operations"].values()) < sum(made["operations"].values())
    assert rules(backend)["changed"]

    assert removed(backend)["changed"]
    assert not removed(backend)["changed"]
    left = machine()
    # iptables' own tables stay where they were made. KUBE-FIREWALL is shared with the kubelet, which may need it by now.
    named = [line for line in left.splitlines() if "KUBE" in line or "ballast" in line]
    assert [line for line in named if "KUBE-FIREWALL" not in line] == []
    assert "table ip other" in left
    assert left.splitlines()[-1] == before.splitlines()[-1], "the setting is as it was"
    assert not RECORDS.exists()


@pytest.mark.usefixtures("namespace")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("against", ["compiled", "kernel"])
def test_packets_are_answered_in_their_order(backend: str, against: str) -> None:
    if against == "kernel":
        rules(backend)
    packets = [
        {"source": POD, "destination": VIP, "port": 80, "protocol": "TCP"},
        {"source": POD6, "destination": VIP6, "port": 80, "protocol": "TCP"},
        {"source": POD, "destination": "203.0.113.9", "port": 80, "protocol": "TCP"},
        {"source": "192.0.2.1", "destination": VIP, "port": 80, "protocol": "TCP", "node_local": True},
    ]
    options = {"backend": backend, "against": against, "packets": packets}
    if against == "compiled":
        options.update(snapshot=snapshot(), node_name="n1", config=CONFIG)
    found = module("service_rules_info", options)
    assert not found["changed"]
    first, second, third, fourth = found["packets"]
    assert (first["verdict"], first["endpoints"]) == ("dnat", ["10.128.2.1:8080", "10.128.2.2:8080"])
    assert (second["verdict"], second["endpoints"]) == ("dnat", ["[fd00:1::2:1]:8080", "[fd00:1::2:2]:8080"])
    assert (third["verdict"], third["endpoints"]) == ("pass", [])
    assert (first["masquerade"], fourth["masquerade"]) == (False, True)
    assert first["why"]


@pytest.mark.usefixtures("namespace")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_dump_answers_as_the_kernel_does(backend: str, tmp_path: Path) -> None:
    rules(backend)
    dumps = {"text": inside("nft", "list", "ruleset"), "json": inside("nft", "-j", "list", "ruleset")}
    if backend == "iptables":
        dumps = {"save": inside("iptables-save") + inside("ip6tables-save")}
    packets = [
        {"source": POD, "destination": VIP, "port": 80, "protocol": "TCP"},
        {"source": POD6, "destination": VIP6, "port": 80, "protocol": "TCP"},
    ]
    live = module("service_rules_info", {"backend": backend, "packets": packets})["packets"]
    for name, text in dumps.items():
        path = tmp_path / name
        path.write_text(text)
        options = {"backend": backend, "packets": packets, "ruleset_path": str(path)}
        assert module("service_rules_info", options)["packets"] == live, name


@pytest.mark.usefixtures("namespace")
def test_every_fault_of_the_input_is_told_and_nothing_is_done() -> None:
    before = machine()
    for options, id in (
        ({"snapshot": {"kind": "List", "items": [{"kind": "Pod"}]}}, "rules-"),
        ({"table": "kube-proxy"}, "rules-table-taken"),
        ({"priority_offset": 1000}, "rules-priority"),
        ({"snapshot_path": "/nowhere"}, "rules-snapshot-where"),
        ({"config": {"clusterCIDRs": "x"}}, "rules-config"),
    ):
        given = {"backend": "nftables", "snapshot": snapshot(), "node_name": "n1", **options}
        told = module("service_rules", given, fails=True)
        assert told["id"].startswith(id), told
    packets = [{"source": "x", "destination": VIP, "port": 0, "protocol": "TCP"}]
    told = module("service_rules_info", {"backend": "nftables", "packets": packets}, fails=True)
    assert "packets[0].source" in told["msg"]
    assert "packets[0].port" in told["msg"]
    assert machine() == before


@pytest.mark.usefixtures("namespace")
def test_windows_policies_are_returned_and_nothing_is_applied() -> None:
    before = machine()
    made = rules("winkernel")
    created = [one for one in made["policies"] if one["operation"] == "create load balancer"]
    assert [one["value"]["FrontendVIPs"] for one in created] == [[VIP], [VIP6]]
    assert not made["changed"]
    there = {"load_balancers": [one["value"] for one in created]}
    gone = rules("winkernel", hns=there, snapshot={**snapshot(), "items": snapshot()["items"][:1]})
    assert [one["operation"] for one in gone["policies"]].count("delete load balancer") == 2
    assert machine() == before
