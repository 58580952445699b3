# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances that have ballast-service-proxy in place of kube-proxy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._agent import program
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.kinds import fields
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.service.service import Service
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, HostError, UserError
from ansible_collections.ballast.kube.plugins.module_utils._instance.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._instance.model import InstancesRequest
from ansible_collections.ballast.kube.plugins.module_utils._instance.record import desired_over_record
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.configuration import parse_configuration
from tests.unit.cases import apply, plan_of, require
from tests.unit.fakes import Killed
from tests.unit.instance import given as g
from tests.unit.instance.kernel import Kernel
from tests.unit.instance.test_model import dual

HOME = f"{g.STATE}/n2"
SOCKETS = "/run/ballast/lab/n2.service-proxy"
GONE: dict[str, Any] = {"state": "absent", "instances": None, "credentials": None, "archives": None}


@pytest.fixture(autouse=True)
def _small_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of which no file is read."""
    monkeypatch.setattr(program, "_sources", lambda _main, packages: dict.fromkeys(packages, b""))


def mixed(backend: str = "ballast", **changes: Any) -> InstancesRequest:
    """n1 has kube-proxy, n2 what is said."""
    return g.desired(2, instances=[g.instance(1), g.instance(2, proxy_backend=backend)], **changes)


def services(host: Kernel) -> dict[str, int]:
    """The process of each service of n2."""
    rows = [(process.argv[0], pid) for pid, process in host.processes.items() if "lab-n2-" in process.argv[0]]
    return {name.split("lab-n2-")[1].partition("/")[0].partition(".service")[0]: pid for name, pid in rows}


def titles(desired: InstancesRequest, host: Kernel) -> list[str]:
    steps = plan_of(ENGINE, desired, host).steps
    return [f"{step.verb} {step.title}".replace(f"{HOME}/", "") for step in steps if "options.json" not in step.target]


def content(desired: InstancesRequest, path: str) -> str:
    """Of a file that is to be made."""
    [found] = [part for part in ENGINE.wanted(Context(desired, g.machine())) if part.target == path]
    return str(fields(found.value)["content"])


def test_it_runs_in_the_place_of_kube_proxy_and_goes_without_a_trace(host: Kernel) -> None:
    before = host.snapshot()
    apply(ENGINE, mixed(), host)
    assert set(services(host)) == {"containerd", "kubelet", "service-proxy"}
    assert [path for path in host.paths(HOME) if "kube-proxy" in path] == []
    assert host.mode(f"{HOME}/pki/service-proxy.key") == 0o600
    assert host.mode(SOCKETS) == 0o700
    done = len(host.effects)
    assert apply(ENGINE, mixed(), host).steps == ()
    assert host.effects[done:] == []
    apply(ENGINE, g.desired(**GONE), host)
    assert host.snapshot() == before
    assert host.cleaned == [], "rules end with their namespace"


def test_it_is_supervised_as_kube_proxy_is_with_less_that_it_may_do() -> None:
    found = [part for part in ENGINE.wanted(Context(mixed(), g.machine())) if part.kind == "service"]
    kube_proxy, own = (Service.from_value(found[number].value) for number in (2, 5))
    assert own.name == "ballast-lab-n2-service-proxy"
    python = ("/usr/bin/python3", "-I", f"{HOME}/ballast-service-proxy.pyz")
    assert own.argv == (*python, "--config", f"{HOME}/etc/service-proxy.json")
    assert own.env == (("RUNTIME_DIRECTORY", SOCKETS),)
    assert own.log == f"{HOME}/log/service-proxy.log"
    assert (own.netns, own.mountns) == ("/run/netns/ballast-lab-n2", "/run/ballast/lab/n2.mnt")
    assert own.cgroup == "ballast-lab-n2/service-proxy"
    for one, capabilities in ((kube_proxy, 5), (own, 1)):
        assert one.sandbox is not None
        assert one.sandbox.host
        assert len(one.sandbox.capabilities) == capabilities
    assert (own.keep_children, own.stop_seconds) == (kube_proxy.keep_children, kube_proxy.stop_seconds)


@pytest.mark.parametrize("former", ["nftables", "iptables", "ipvs"])
def test_a_change_of_the_backend_removes_the_rules_of_the_former_and_restarts_nothing_else(
    host: Kernel, former: str
) -> None:
    apply(ENGINE, mixed(former), host)
    kept = {name: pid for name, pid in services(host).items() if name != "kube-proxy"}
    assert titles(mixed(), host) == [
        "remove service ballast-lab-n2-kube-proxy",
        f"remove file {HOME}/etc/kube-proxy.json".replace(f"{HOME}/", ""),
        "remove file etc/kube-proxy.kubeconfig",
        "remove file pki/kube-proxy.key",
        "remove file pki/kube-proxy.crt",
        "make file pki/service-proxy.crt",
        "make file pki/service-proxy.key",
        "make file etc/service-proxy.kubeconfig",
        "make file etc/service-proxy.json",
        "make program ballast-service-proxy.pyz",
        f"make directory {SOCKETS}",
        "change rules of Services in ballast-lab-n2",
        "make service ballast-lab-n2-service-proxy",
    ]
    apply(ENGINE, mixed(), host)
    assert host.cleaned == [("ballast-lab-n2", "kube-proxy")]
    assert apply(ENGINE, mixed(), host).steps == ()
    assert kept.items() <= services(host).items()
    assert "kube-proxy" not in services(host)

    apply(ENGINE, mixed(former), host)
    assert host.cleaned[1:] == [("ballast-lab-n2", "service-proxy")]
    assert apply(ENGINE, mixed(former), host).steps == ()
    assert kept.items() <= services(host).items()
    assert set(services(host)) == {"containerd", "kubelet", "kube-proxy"}
    assert [path for path in host.paths("/") if "service-proxy" in path] == []


@pytest.mark.parametrize(("first", "then"), [("nftables", "ballast"), ("ballast", "nftables")])
def test_killed_at_any_effect_of_a_change_the_next_run_finishes_it(first: str, then: str) -> None:
    made = "service-proxy" if then == "ballast" else "kube-proxy"
    former = "kube-proxy" if then == "ballast" else "service-proxy"
    for number in range(1, 1000):
        host = g.machine()
        given = host.snapshot()
        apply(ENGINE, mixed(first), host)
        host.fail_at(number, torn=True)
        try:
            apply(ENGINE, mixed(then), host)
        except Killed:
            pass
        else:
            break
        host.calm()
        apply(ENGINE, mixed(then), host)
        assert apply(ENGINE, mixed(then), host).steps == ()
        assert set(services(host)) == {"containerd", "kubelet", made}
        assert ("ballast-lab-n2", former) in host.cleaned, number
        apply(ENGINE, g.desired(**GONE), host)
        assert host.snapshot() == given
    assert number > 20


def test_stopped_it_keeps_its_files_and_starts_again(host: Kernel) -> None:
    apply(ENGINE, mixed(), host)
    configuration = host.text(f"{HOME}/etc/service-proxy.json")
    apply(ENGINE, g.desired(state="stopped", instances=None), host)
    assert host.processes == {}
    assert host.text(f"{HOME}/etc/service-proxy.json") == configuration
    apply(ENGINE, mixed(), host)
    assert set(services(host)) == {"containerd", "kubelet", "service-proxy"}
    stopped = [g.instance(1), g.instance(2, proxy_backend="ballast", stopped=True)]
    apply(ENGINE, g.desired(2, instances=stopped), host)
    assert services(host) == {}
    apply(ENGINE, mixed("iptables"), host)
    assert set(services(host)) == {"containerd", "kubelet", "kube-proxy"}
    assert host.cleaned == [], "the namespace is new each time"


def test_its_configuration_restarts_it_alone(host: Kernel) -> None:
    apply(ENGINE, mixed(), host)
    renewed = [g.credentials("n1"), {**g.credentials("n2"), "service_proxy_key": "another"}]
    for change, files in (
        ({"credentials": renewed}, ["change file pki/service-proxy.key"]),
        ({"ca": "another"}, ["change file pki/ca.crt"]),
    ):
        found = [title for title in titles(mixed(**change), host) if "n1" not in title]
        others = ["containerd", "kubelet"] if "ca" in change else []
        assert found == [*files, *(f"change service ballast-lab-n2-{name}" for name in (*others, "service-proxy"))]


def test_another_version_of_the_program_restarts_it_alone(host: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    apply(ENGINE, mixed(), host)
    monkeypatch.setattr(program, "_sources", lambda _main, packages: dict.fromkeys(packages, b"new"))
    assert titles(mixed(), host) == [
        "change program ballast-service-proxy.pyz",
        "change service ballast-lab-n2-service-proxy",
    ]


@pytest.mark.parametrize("families", [{}, dual()])
def test_the_program_takes_its_configuration_without_a_warning(families: dict[str, Any]) -> None:
    rows = families.get("instances", [g.instance(1)])
    wanted = g.desired(
        **{**families, "instances": [{**rows[0], "proxy_backend": "ballast"}]}, feature_gates={"A": True}
    )
    found = parse_configuration(content(wanted, f"{g.STATE}/n1/etc/service-proxy.json"), name="x")
    assert found.warnings == ()
    assert (found.node_name, found.healthz) == ("n1", ("10.97.0.11", 10256))
    assert found.document["clusterCIDR"] == wanted.cluster_cidr
    assert found.kubeconfig == f"{g.STATE}/n1/etc/service-proxy.kubeconfig"
    pki = f"{g.STATE}/n1/pki/service-proxy"
    kubeconfig = json.loads(content(wanted, found.kubeconfig))
    assert kubeconfig["users"][0]["user"] == {"client-certificate": f"{pki}.crt", "client-key": f"{pki}.key"}


def test_it_is_healthy_when_its_rules_were_in_force(host: Kernel) -> None:
    apply(ENGINE, mixed(), host)

    def reported() -> list[tuple[str, str]]:
        rows: Any = ENGINE.report(Context(mixed(), host))["instances"]
        return [(row["proxy_backend"], row["proxy_reason"]) for row in rows]

    host.answer("http://10.97.0.11:10256/healthz", Response(status=200, body=b"{}"))
    host.answer("http://10.97.0.12:10256/healthz", Response(status=200, body=b"{}"))
    host.answer("http://10.97.0.12:10256/readyz", Response(status=503, body=b"{}"))
    assert reported() == [("nftables", ""), ("ballast", "service-proxy returns status 503 on /readyz")]
    host.answer("http://10.97.0.12:10256/readyz", Response(status=200, body=b"{}"))
    assert reported() == [("nftables", ""), ("ballast", "")]


def test_a_node_whose_kube_proxy_was_migrated_keeps_it_until_that_is_taken_back(host: Kernel) -> None:
    apply(ENGINE, mixed("iptables"), host)
    host.given(f"{HOME}/kube-proxy/ledger.jsonl", '{"op": "recorded"}\n')
    rows = [g.instance(1), g.instance(2, proxy_backend="ballast")]
    kept = desired_over_record(g.params(2, instances=rows), host)
    assert kept.instances[1].proxy_backend == "iptables"
    apply(ENGINE, kept, host)
    assert "kube-proxy" in services(host)
    host.given(f"{HOME}/kube-proxy/ledger.jsonl", "")
    assert desired_over_record(g.params(2, instances=rows), host).instances[1].proxy_backend == "ballast"


def test_what_it_runs_on_is_asked_for_where_an_instance_has_it() -> None:
    host = g.machine()
    host.on("/usr/bin/python3", answer="prometheus_client\n", reads=True)
    require(ENGINE, mixed("nftables"), host)
    with pytest.raises(HostError, match="lacks what the service proxy runs on: prometheus_client"):
        require(ENGINE, mixed(), host)


def test_without_its_own_credentials_it_is_refused() -> None:
    host = g.machine()
    host.on("/usr/bin/python3", answer="", reads=True)
    host.given("/usr/sbin/nft", mode=0o755)
    rows = [g.credentials("n1"), {**g.credentials("n2"), "service_proxy_key": None}]
    with pytest.raises(BallastError) as refused:
        require(ENGINE, mixed(credentials=rows), host)
    assert (refused.value.id, "instances.n2" in refused.value.text) == ("instance-no-credentials", True)


def test_where_a_daemonset_runs_kube_proxy_it_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(UserError) as refused:
        mixed(kube_proxy="daemonset")
    assert refused.value.id == "instance-proxy-daemonset"
    assert refused.value.text.startswith("instances[1].proxy_backend: backend ballast runs as a service")
    assert "nftables, iptables or ipvs" in refused.value.remedy
