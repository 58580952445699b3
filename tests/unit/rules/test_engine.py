# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine of service rules, over a backend in memory whose commits can fail."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.facts import SETTINGS
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Host
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, HostError
from ansible_collections.ballast.kube.plugins.module_utils._rules import engine as module
from ansible_collections.ballast.kube.plugins.module_utils._rules.engine import ENGINE, SPEC, ServiceRulesRequest
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import FamilyView, RuleConfig
from ansible_collections.ballast.kube.plugins.module_utils._rules.record import DIRECTORY
from tests.unit.fakes import FakeHost
from tests.unit.rules.given import endpoint_slice
from tests.unit.rules.ipvs.kernel import LINK, Kernel

PROGRESS = Progress(NullSink(), feature="test")
SETTING = "net.ipv4.conf.all.route_localnet"


@dataclass(frozen=True)
class Change:
    kind: str
    target: str
    to: tuple[str, ...]


@dataclass
class Memory:
    """Rules are the titles of Services."""

    held: dict[int, tuple[str, ...]] = field(default_factory=lambda: {4: (), 6: ()})
    fails: int = 0  # a family whose commits fail
    forgets: bool = False  # commits that have no effect
    wants: tuple[tuple[str, str], ...] = ()
    brings: str = ""  # a setting that its module has

    def compile(self, view: FamilyView, config: RuleConfig) -> tuple[int, tuple[str, ...]]:
        return (view.family, tuple(service.title for service in view.services))

    def settings(self, view: FamilyView, config: RuleConfig) -> tuple[tuple[str, str], ...]:
        return self.wants

    def prepare(self, host: Host) -> None:
        if self.brings and isinstance(host, FakeHost):
            host.given_sysctl(self.brings, 0)

    def require_ours(self, host: Host, family: int) -> None:
        """There is nothing of others."""

    def read(self, host: Host, family: int) -> tuple[int, tuple[str, ...]]:
        return (family, self.held[family])

    def read_for_removal(self, host: Host, family: int) -> tuple[int, tuple[str, ...]]:
        return (family, ("something",) if self.held[family] else ())

    def plan(self, wanted: Any, found: tuple[int, tuple[str, ...]]) -> Sequence[Change]:
        to = wanted[1] if wanted is not None else ()
        return [Change("write", str(found[0]), to)] if to != found[1] else []

    def commit(self, operations: Sequence[Change], host: Host, found: tuple[int, tuple[str, ...]]) -> None:
        for one in operations:
            if found[0] == self.fails:
                raise HostError("refused", id="core-test")
            if not self.forgets:
                self.held[found[0]] = one.to

    def select_own(self, rules: Any) -> Any:
        return rules

    def diff(self, wanted: Any, found: tuple[int, tuple[str, ...]]) -> tuple[str, str]:
        titles = wanted[1] if wanted is not None else ()
        return "".join(f"{title}\n" for title in found[1]), "".join(f"{title}\n" for title in titles)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    found = Memory()
    monkeypatch.setattr(module, "backend_of", lambda desired, host, record: found)
    return found


@pytest.fixture
def host() -> FakeHost:
    found = FakeHost()
    found.given("/proc/net/if_inet6")
    found.given_sysctl(SETTING, 0)
    return found


def service(name: str, *addresses: str) -> dict[str, Any]:
    spec = {
        "type": "ClusterIP",
        "clusterIP": addresses[0],
        "clusterIPs": list(addresses),
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def params(*items: dict[str, Any], **changes: Any) -> dict[str, Any]:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
    }
    return {
        **{name: option.get("default") for name, option in SPEC.items()},
        "backend": "iptables",
        "node_name": "n1",
        "node_ips": ["192.0.2.1"],
        "snapshot": {"apiVersion": "v1", "kind": "List", "items": [node, *items]},
        **changes,
    }


def wanted(*items: dict[str, Any], **changes: Any) -> ServiceRulesRequest:
    return ServiceRulesRequest.from_params(params(*items, **changes), FakeHost())


def run(desired: ServiceRulesRequest, host: FakeHost) -> dict[str, object]:
    plan = ENGINE.plan(desired, ENGINE.observe(Context(desired, host)))
    ENGINE.apply(plan, Context(desired, host, PROGRESS))
    return ENGINE.as_result(plan)


BOTH = service("web", "10.96.0.10", "fd00:96::10")


def test_both_families_are_brought_to_the_snapshot_and_a_second_run_does_nothing(
    memory: Memory, host: FakeHost
) -> None:
    assert run(wanted(BOTH), host) == {"operations": {"write": 2}}
    assert memory.held == {4: ("default/web:http",), 6: ("default/web:http",)}
    done = len(host.effects)
    assert run(wanted(BOTH), host) == {"operations": {}}
    assert host.effects[done:] == []
    assert run(wanted(state="absent", snapshot=None), host) == {"operations": {"write": 2}}
    assert memory.held == {4: (), 6: ()}


def test_a_kernel_without_ipv6_is_asked_for_ipv4_alone(memory: Memory) -> None:
    assert run(wanted(BOTH), FakeHost()) == {"operations": {"write": 1}}
    assert memory.held[6] == ()


def test_when_the_second_family_fails_the_first_is_as_before(memory: Memory, host: FakeHost) -> None:
    run(wanted(BOTH), host)
    before = dict(memory.held)
    memory.fails = 6
    with pytest.raises(HostError, match="refused"):
        run(wanted(service("other", "10.96.0.11", "fd00:96::11")), host)
    assert memory.held == before


def test_a_removal_that_fails_in_the_second_family_is_gone_on_with(memory: Memory, host: FakeHost) -> None:
    run(wanted(BOTH), host)
    memory.fails = 6
    with pytest.raises(HostError, match="refused"):
        run(wanted(state="absent", snapshot=None), host)
    assert memory.held == {4: (), 6: ("default/web:http",)}
    memory.fails = 0
    assert run(wanted(state="absent", snapshot=None), host) == {"operations": {"write": 1}}
    assert memory.held == {4: (), 6: ()}


def test_settings_are_changed_and_put_back(memory: Memory, host: FakeHost) -> None:
    memory.wants = ((SETTING, "1"),)
    told = run(wanted(BOTH), host)
    assert told == {"operations": {"change setting": 1, "write": 2}}
    assert host.text(f"/proc/sys/{SETTING.replace('.', '/')}").strip() == "1"
    assert run(wanted(BOTH), host) == {"operations": {}}
    run(wanted(state="absent", snapshot=None), host)
    assert host.text(f"/proc/sys/{SETTING.replace('.', '/')}").strip() == "0"
    assert host.stat(DIRECTORY) is None


def test_a_setting_that_was_right_already_is_not_ours_to_put_back(memory: Memory, host: FakeHost) -> None:
    host.given_sysctl(SETTING, 1)
    memory.wants = ((SETTING, "1"),)
    run(wanted(BOTH), host)
    run(wanted(state="absent", snapshot=None), host)
    assert host.text(f"/proc/sys/{SETTING.replace('.', '/')}").strip() == "1"


def test_the_original_of_a_setting_is_known_also_after_a_kill_or_a_failure(memory: Memory, host: FakeHost) -> None:
    memory.wants = ((SETTING, "1"),)
    memory.fails = 4
    with pytest.raises(HostError):
        run(wanted(BOTH), host)
    memory.fails = 0
    run(wanted(BOTH), host)
    run(wanted(state="absent", snapshot=None), host)
    assert host.text(f"/proc/sys/{SETTING.replace('.', '/')}").strip() == "0"


def test_a_setting_that_the_kernel_lacks_is_told_by_name(memory: Memory, host: FakeHost) -> None:
    memory.wants = (("net.ipv4.vs.conntrack", "1"),)
    with pytest.raises(BallastError, match=r"net\.ipv4\.vs\.conntrack") as caught:
        run(wanted(BOTH), host)
    assert caught.value.id == "rules-setting-absent"


def test_a_setting_that_a_module_brings_is_put_back_to_what_the_module_had(memory: Memory, host: FakeHost) -> None:
    memory.wants, memory.brings = (("net.ipv4.vs.conntrack", "1"),), "net.ipv4.vs.conntrack"
    assert run(wanted(BOTH), host) == {"operations": {"change setting": 1, "write": 2}}
    memory.brings = ""
    assert host.text("/proc/sys/net/ipv4/vs/conntrack").strip() == "1"
    run(wanted(state="absent", snapshot=None), host)
    assert host.text("/proc/sys/net/ipv4/vs/conntrack").strip() == "0"


def test_rules_that_do_not_stay_are_a_finding(memory: Memory, host: FakeHost) -> None:
    memory.forgets = True
    desired = wanted(BOTH)
    run(desired, host)
    assert [one.id for one in ENGINE.verify(Context(desired, host, PROGRESS)) if one.blocking] == ["rules-not-held"]
    memory.forgets = False
    run(desired, host)
    assert [one.id for one in ENGINE.verify(Context(desired, host, PROGRESS)) if one.blocking] == []


def test_a_family_without_services_has_no_warnings(memory: Memory, host: FakeHost) -> None:
    only4 = wanted(service("web", "10.96.0.10"), endpoint_slice([]), config={"clusterCIDR": "10.128.0.0/16"})
    assert ENGINE.verify(Context(only4, host, PROGRESS))[1:] == []
    both = wanted(BOTH, config={"clusterCIDR": "10.128.0.0/16"})
    assert "rules-config-detector" in [one.id for one in ENGINE.verify(Context(both, host, PROGRESS))]


def test_two_services_with_one_address_are_reported(memory: Memory, host: FakeHost) -> None:
    first, second = service("a", "10.96.0.10"), service("b", "10.96.0.10")
    desired = wanted(second, first)
    expected = {"destination": "10.96.0.10:80/TCP", "winner": "default/a:http", "loser": "default/b:http"}
    assert ENGINE.report(Context(desired, host)) == {"duplicates": [expected]}
    assert "rules-duplicate" in [one.id for one in ENGINE.verify(Context(desired, host, PROGRESS))]


def test_the_difference_shows_what_is_and_what_would_be(memory: Memory, host: FakeHost) -> None:
    memory.wants = ((SETTING, "1"),)
    desired = wanted(BOTH)
    rows = ENGINE.diff(ENGINE.plan(desired, ENGINE.observe(Context(desired, host))))
    assert [(row["before_header"], row["before"], row["after"]) for row in rows] == [
        ("rules of IPv4", "", "default/web:http\n"),
        ("rules of IPv6", "", "default/web:http\n"),
        (f"setting {SETTING}", "0\n", "1\n"),
    ]
    assert host.effects == []


@pytest.mark.parametrize(
    ("changes", "id"),
    [
        ({"table": "kube-proxy"}, "rules-table-taken"),
        ({"priority_offset": 91}, "rules-priority"),
        ({"snapshot_path": "/x"}, "rules-snapshot-where"),
        ({"snapshot": None}, "rules-snapshot-where"),
        ({"snapshot": None, "snapshot_path": "/nowhere/at/all"}, "rules-snapshot-absent"),
        ({"hns": {"name": 1}}, "rules-hns-key"),
        ({"hns": {"endpoints": [{"address": "x", "id": "1"}]}}, "rules-hns-value"),
        ({"hns": {"load_balancers": [{}]}}, "rules-hns-value"),
    ],
)
def test_what_is_wrong_is_refused_by_name(changes: dict[str, Any], id: str) -> None:
    with pytest.raises(BallastError) as caught:
        wanted(BOTH, **changes)
    assert caught.value.id == id


def test_windows_policies_are_created_and_those_of_others_deleted() -> None:
    host = FakeHost()
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "web-x",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.128.2.1"], "conditions": {"ready": True}}],
    }
    desired = wanted(BOTH, endpoints, backend="winkernel")
    plan = ENGINE.plan(desired, ENGINE.observe(Context(desired, host)))
    assert plan.steps == []
    told: Any = ENGINE.as_result(plan)
    made = [one["value"] for one in told["policies"] if one["operation"] == "create load balancer"]
    assert [one["FrontendVIPs"] for one in made] == [["10.96.0.10"]]
    there = json.loads(json.dumps(made))
    again = wanted(BOTH, endpoints, backend="winkernel", hns={"load_balancers": there})
    kinds = [one.kind for one in ENGINE.plan(again, ENGINE.observe(Context(again, host))).policies]
    assert "load balancer" not in " ".join(kinds)
    gone = wanted(backend="winkernel", hns={"load_balancers": there})
    kinds = [one.kind for one in ENGINE.plan(gone, ENGINE.observe(Context(gone, host))).policies]
    assert kinds == ["delete load balancer"]


def test_the_link_that_both_families_share_is_made_once_and_goes_with_the_second() -> None:
    kernel = Kernel()
    host = kernel.host()
    host.given("/proc/net/if_inet6")
    host.on("modprobe", answer="")
    for name in SETTINGS["ipvs"]:
        host.given_sysctl(name, 0)
    for desired in (wanted(BOTH, backend="ipvs"), wanted(backend="ipvs", state="absent", snapshot=None)):
        ENGINE.apply(ENGINE.plan(desired, ENGINE.observe(Context(desired, host))), Context(desired, host, PROGRESS))
        assert ENGINE.plan(desired, ENGINE.observe(Context(desired, host))).steps == []
    assert LINK not in kernel.links
