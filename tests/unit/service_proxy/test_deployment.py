# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._agent import program
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Host
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import service_pid
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems, UserError
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment import rules
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.installation import INSTALLATION
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.request import USER
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.feed import resources_of
from tests.unit.cases import apply, check_kills, plan_of
from tests.unit.fakes import FakeHost
from tests.unit.service_proxy.machine import (
    CONFIG,
    KUBECONFIG,
    MACHINES,
    SV,
    TABLES,
    Proxy,
    deployment,
    nothing,
)

PROGRESS = Progress(NullSink(), feature="test")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _small_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of which no file is read, and rules that are a file."""
    monkeypatch.setattr(program, "_sources", lambda _main, packages: dict.fromkeys(packages, b""))
    monkeypatch.setattr(rules, "_has_tables", _has_tables)
    monkeypatch.setattr(rules, "remove_tables", lambda host: host.remove(TABLES))


def _has_tables(host: Host) -> bool:
    return host.stat(TABLES) is not None


@pytest.fixture(params=sorted(MACHINES))
def proxy(request: pytest.FixtureRequest) -> Proxy:
    return MACHINES[request.param]()


def titles(host: FakeHost, config: dict[str, Any], **changes: Any) -> list[str]:
    return [f"{step.verb} {step.title}" for step in plan_of(ENGINE, deployment(config, **changes), host).steps]


def pid(host: FakeHost) -> int:
    found = service_pid(host, SV)
    assert found is not None
    return found


def test_it_is_installed_runs_and_goes_without_a_trace(proxy: Proxy) -> None:
    host, given = proxy.host, proxy.host.snapshot()
    want = deployment({"clusterCIDR": "10.244.0.0/16"})
    plan_of(ENGINE, want, host)
    assert host.effects == [], "observing and planning change nothing"
    apply(ENGINE, want, host)
    assert json.loads(host.text(CONFIG)) == {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": KUBECONFIG},
        "clusterCIDR": "10.244.0.0/16",
    }
    assert host.mode(CONFIG) == 0o644, "the program reads it as its own user"
    assert _has_tables(host)
    assert ENGINE.verify(Context(want, host, PROGRESS)) == []
    before = len(host.effects)
    apply(ENGINE, want, host)
    assert host.effects[before:] == [], "a second run has no effect"
    apply(ENGINE, nothing(), host)
    apply(ENGINE, nothing(), host)
    assert host.snapshot() == given


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_a_kill_at_any_moment_is_fixed_by_the_next_run(name: str) -> None:
    proxies: list[Proxy] = []

    def machine() -> FakeHost:
        proxies.append(MACHINES[name]())
        return proxies[-1].host

    kills = check_kills(ENGINE, machine, deployment(), nothing(), _has_tables)
    assert kills > 60


def test_an_api_server_that_is_away_is_no_difference(proxy: Proxy) -> None:
    """No rules yet, and none that a run could make."""
    apply(ENGINE, deployment(), proxy.host)
    proxy.host.remove(TABLES)
    assert titles(proxy.host, {}) == []


@pytest.mark.parametrize("change", [{"clusterCIDR": "10.1.0.0/16"}, {"nftables": {"syncPeriod": "1m"}}])
def test_the_running_one_takes_settings(proxy: Proxy, change: dict[str, Any]) -> None:
    apply(ENGINE, deployment(), proxy.host)
    before = pid(proxy.host)
    assert titles(proxy.host, change) == ["change service ballast-service-proxy"]
    apply(ENGINE, deployment(change), proxy.host)
    assert pid(proxy.host) == before
    assert proxy.configuration is not None
    assert proxy.configuration.document.items() >= change.items()
    assert titles(proxy.host, change) == []


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ({"metricsBindAddress": "127.0.0.1:99"}, {}),
        ({"hostnameOverride": "n2"}, {}),
        ({"clientConnection": {"kubeconfig": "/etc/other"}}, {}),
        ({}, {"service_proxy_name": ""}),
    ],
)
def test_some_need_a_restart(proxy: Proxy, config: dict[str, Any], options: dict[str, Any]) -> None:
    apply(ENGINE, deployment(), proxy.host)
    before = pid(proxy.host)
    apply(ENGINE, deployment(config, **options), proxy.host)
    assert pid(proxy.host) != before
    assert titles(proxy.host, config, **options) == []


def test_its_unit_has_what_it_becomes_its_user_with_and_its_command_line() -> None:
    machine = MACHINES["systemd"]()
    apply(ENGINE, deployment(), machine.host)
    unit = machine.host.text("/etc/systemd/system/ballast-service-proxy.service")
    assert "CapabilityBoundingSet=CAP_NET_ADMIN CAP_SETUID CAP_SETGID\n" in unit
    assert f'"--user" "{USER}"' in unit
    assert "NoNewPrivileges=yes\n" in unit
    assert "ProtectSystem=strict\n" in unit
    assert "--service-proxy-name" in unit
    assert "After=network-online.target" in unit


def test_all_services_are_served_without_a_name() -> None:
    assert "--service-proxy-name" not in ENGINE.arguments(deployment(service_proxy_name=""))
    assert ENGINE.arguments(deployment())[:2] == ("--service-proxy-name", "ballast")


def test_it_has_a_user_of_its_own_whose_group_alone_may_read_the_kubeconfig(proxy: Proxy) -> None:
    host, users = proxy.host, proxy.users
    host.given("/etc/ballast/ca.crt", mode=0o644)
    host.given("/etc/ballast/client.key", mode=0o600)
    host.given(KUBECONFIG, json.dumps(_kubeconfig("ca.crt", "client.key")), mode=0o600)
    apply(ENGINE, deployment(), host)
    assert f"{USER}:x:901:901:made by ballast.kube:/nonexistent:" in host.text("/etc/passwd")
    for path in (KUBECONFIG, "/etc/ballast/client.key"):
        assert (users.group_of(path), host.owner(path)[0], host.mode(path)) == (USER, 0, 0o640)
    assert (users.group_of("/etc/ballast/ca.crt"), host.mode("/etc/ballast/ca.crt")) == ("root", 0o644)

    host.given_owner(KUBECONFIG, 0, 0, mode=0o600)  # whoever manages the file writes it again
    assert titles(host, {}) == [f"change group of {KUBECONFIG}"]
    apply(ENGINE, deployment(), host)
    host.given_owner("/etc/ballast/client.key", 0, 50, mode=0o640)  # or gives it to others, whose it stays
    apply(ENGINE, nothing(), host)
    assert (users.group_of(KUBECONFIG), host.mode(KUBECONFIG)) == ("root", 0o600)
    assert (users.group_of("/etc/ballast/client.key"), host.mode("/etc/ballast/client.key")) == ("ops", 0o640)
    assert USER not in host.text("/etc/passwd") + host.text("/etc/group")


def _kubeconfig(ca: str, key: str) -> dict[str, Any]:
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": ca}}],
        "users": [{"name": "u", "user": {"client-certificate": ca, "client-key": key}}],
    }


@pytest.mark.parametrize("comment", ["Somebody", "made by ballast.kube", ""])
def test_a_user_or_group_of_that_name_that_is_not_ours_is_refused(proxy: Proxy, comment: str) -> None:
    """Also with our mark, where no journal lists it."""
    if comment:
        proxy.users.given(USER, comment)
    else:
        proxy.host.given("/etc/group", f"root:x:0:\n{USER}:x:77:\n")
    given = proxy.host.snapshot()
    with pytest.raises(BallastError) as caught:
        apply(ENGINE, deployment(), proxy.host)
    assert (caught.value.id, proxy.host.snapshot()) == ("core-taken", given)


def test_what_its_user_could_not_read_is_refused_before_anything_is_done(proxy: Proxy) -> None:
    proxy.host.given_directory("/etc/ballast/closed", mode=0o700)
    proxy.host.given("/etc/ballast/closed/kubeconfig", "{}", mode=0o600)
    proxy.host.given_owner(KUBECONFIG, 0, 50, mode=0o640)
    given = proxy.host.snapshot()
    for path, expected in (("/etc/ballast/closed/kubeconfig", "closed"), (KUBECONFIG, "group")):
        ctx = Context(deployment({"clientConnection": {"kubeconfig": path}}), proxy.host, PROGRESS)
        with pytest.raises(BallastError) as caught:
            ENGINE.require(ctx, ENGINE.observe(ctx))
        assert (caught.value.id, proxy.host.snapshot()) == (f"service-proxy-kubeconfig-{expected}", given)


def test_settings_without_effect_are_findings_that_do_not_block(proxy: Proxy) -> None:
    want = deployment({"oomScoreAdj": -500})
    apply(ENGINE, want, proxy.host)
    (finding,) = ENGINE.verify(Context(want, proxy.host, PROGRESS))
    assert (finding.id, finding.blocking) == ("service-proxy-config-unused", False)


def test_all_that_is_wrong_is_reported_at_once() -> None:
    with pytest.raises(Problems) as caught:
        deployment({"clientConnection": {}, "oomScoreAdj": 5000, "foo": 1}, service_proxy_name="-")
    ids = [problem.id for problem in caught.value.problems]
    assert ids == ["service-proxy-name", "service-proxy-kubeconfig", "rules-config-key", "rules-config-value"]
    with pytest.raises(UserError):
        deployment({"oomScoreAdj": 5000})


@pytest.mark.parametrize("value", ["/etc/ballast/service-proxy.kubeconfig", ["/etc"], True])
def test_a_section_of_the_configuration_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(UserError) as caught:
        deployment({"clientConnection": value})
    assert (caught.value.id, caught.value.text.partition(":")[0]) == ("rules-config-value", "clientConnection")


def test_nft_is_among_what_is_missing(proxy: Proxy) -> None:
    assert INSTALLATION.missing(proxy.host) == {}
    bare = FakeHost()
    bare.on("/usr/bin/python3", answer="prometheus_client\n", reads=True)
    assert INSTALLATION.missing(bare) == {"prometheus_client": "python3-prometheus-client", "nft": "nftables"}


def test_rights_are_those_that_the_program_uses() -> None:
    account, role, binding = yaml.safe_load((ROOT / "roles/service_proxy/files/rights.yml").read_text())["items"]
    given = {
        (group, name): rule["verbs"]
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for name in rule["resources"]
    }
    assert given.pop(("events.k8s.io", "events")) == ["create"]
    followed = {_group_and_name(resource.path) for resource in resources_of("n1", "")}
    assert given == dict.fromkeys(followed, ["list", "watch"])
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [row["name"] for row in binding["subjects"]] == [account["metadata"]["name"]]


def _group_and_name(path: str) -> tuple[str, str]:
    """Of /api/v1/NAME, /apis/GROUP/VERSION/NAME."""
    words = path.strip("/").split("/")
    return ("" if words[0] == "api" else words[1], words[-1])
