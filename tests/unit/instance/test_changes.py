# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a change restarts: the programs that have read it, of that instance alone."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan_report import plan_diff
from ansible_collections.ballast.kube.plugins.module_utils._core.service.service import Service
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import Unavailable
from ansible_collections.ballast.kube.plugins.module_utils._instance.engine import BINARIES, ENGINE
from tests.unit.cases import apply, plan_of
from tests.unit.instance import given as g
from tests.unit.instance.kernel import Kernel

OPTIONS = f"{g.STATE}/options.json"


def test_programs_of_an_instance_collect_their_garbage_early(host: Kernel) -> None:
    """Go's default lets a heap double: with three nodes, 8 MiB of each."""
    services = [part for part in ENGINE.wanted(Context(g.desired(), host)) if part.kind == "service"]
    assert len(services) == 3
    assert all(dict(Service.from_value(part.value).env)["GOGC"] == "50" for part in services)


@pytest.mark.parametrize(
    ("change", "name", "restarted"),
    [
        ({"kubelet": {"maxPods": 30}}, "kubelet", ["containerd", "kubelet"]),
        ({"proxy_backend": "iptables"}, "kube-proxy", ["kube-proxy"]),
    ],
)
def test_a_changed_configuration_restarts_what_has_it_in_that_instance_alone(
    host: Kernel, change: dict[str, Any], name: str, restarted: list[str]
) -> None:
    apply(ENGINE, g.desired(2), host)
    plan = plan_of(ENGINE, g.desired(2, instances=[g.instance(1), g.instance(2, **change)]), host)
    assert [step.title for step in plan.steps if step.target != OPTIONS] == [
        f"file {g.STATE}/n2/etc/{name}.json",
        *(f"service ballast-lab-n2-{name}" for name in restarted),
    ]


def test_programs_of_another_version_restart_that_instance_alone(host: Kernel) -> None:
    """As in an upgrade: instances whose turn is yet to come name the programs that they have."""
    for name in BINARIES:
        host.given(f"/opt/new/{name}", mode=0o755)
    apply(ENGINE, g.desired(2), host)
    held = {"bin_dir": g.BIN, "kubernetes_version": "1.37.1"}
    new = {"bin_dir": "/opt/new", "kubernetes_version": "1.38.0"}
    plan = plan_of(ENGINE, g.desired(2, instances=[g.instance(1), g.instance(2, **held)], **new), host)
    # The images of the archives are imported again, by the new containerd.
    assert {step.group for step in plan.steps if step.target != OPTIONS} == {"images", "node n1"}
    services = [step.title for step in plan.steps if step.kind == "service"]
    assert services == [f"service ballast-lab-n1-{name}" for name in ("containerd", "kubelet", "kube-proxy")]
    apply(ENGINE, g.desired(2, instances=[g.instance(1), g.instance(2, **held)], **new), host)
    plan = plan_of(ENGINE, g.desired(2, **new), host)
    assert {step.group for step in plan.steps if step.target != OPTIONS} == {"node n2"}


def test_a_lab_is_removed_without_its_programs(host: Kernel) -> None:
    apply(ENGINE, g.desired(), host)
    host.remove_tree(g.BIN)
    for path in (f"{g.BIN}/ctr", "/bin/ctr"):
        host.on(path, answer=Unavailable(path), reads=True)
    apply(ENGINE, g.desired(state="absent"), host)
    assert host.stat(g.STATE) is None


def test_other_programs_in_the_cache_end_no_pods(host: Kernel) -> None:
    first, second = (f"/var/cache/ballast/{name}" for name in ("1", "2"))
    for name in BINARIES:
        host.given(f"{second}/{name}", mode=0o755)
        host.given(f"{first}/{name}", mode=0o755)
    apply(ENGINE, g.desired(bin_dir=first, archives=[]), host)
    assert {step.kind for step in plan_of(ENGINE, g.desired(bin_dir=second, archives=[]), host).steps} == {
        "file",
        "service",
    }


def test_a_version_decides_the_configuration_of_its_instance(host: Kernel) -> None:
    old = {"bin_dir": "/opt/old", "kubernetes_version": "1.34.4"}
    host.given_directory("/opt/old")
    apply(ENGINE, g.desired(2, instances=[g.instance(1), g.instance(2, **old)]), host)
    policies = [
        "imagePullCredentialsVerificationPolicy" in host.text(f"{g.STATE}/{n}/etc/kubelet.json") for n in ("n1", "n2")
    ]
    assert policies == [True, False]


def test_mirrors_are_files_that_no_service_is_restarted_for(host: Kernel) -> None:
    certs = "/var/lib/ballast/lab/certs.d"
    apply(ENGINE, g.desired(2, certs_dir=certs), host)
    assert f'config_path = "{certs}"' in host.text(f"{g.STATE}/n2/etc/containerd.toml")
    host.given(f"{certs}/own.example/hosts.toml", "of the user")
    mirrors = {"docker.io": ["https://a.example", "http://b.example/c"], "own.example": ["http://d"]}
    mirrored = g.desired(2, certs_dir=certs, registry_mirrors=mirrors)
    plan = plan_of(ENGINE, mirrored, host)
    assert {step.kind for step in plan.steps} == {"directory", "file"}
    apply(ENGINE, mirrored, host)
    assert host.text(f"{certs}/docker.io/hosts.toml") == (
        '[host."https://a.example"]\ncapabilities = ["pull", "resolve"]\n\n'
        '[host."http://b.example/c"]\ncapabilities = ["pull", "resolve"]\n'
    )
    assert plan_of(ENGINE, mirrored, host).steps == ()
    apply(ENGINE, g.desired(2, certs_dir=certs), host)
    assert host.stat(f"{certs}/docker.io") is None
    assert host.text(f"{certs}/own.example/hosts.toml") == "of the user"
    apply(ENGINE, g.desired(state="absent"), host)
    assert host.stat(certs) is None


SECRET = "a-word-of-a-proxy"
PROXIES = {"http": None, "https": f"http://me:{SECRET}@10.0.0.1:3128", "no_proxy": [".svc"]}


def test_other_proxies_restart_containerd_alone(host: Kernel) -> None:
    apply(ENGINE, g.desired(), host)
    proxied = g.desired(proxies=PROXIES)
    path, containerd = f"file {g.STATE}/n1/etc/proxies.env", "service ballast-lab-n1-containerd"
    assert [step.title for step in plan_of(ENGINE, proxied, host).steps] == [path, containerd]
    apply(ENGINE, proxied, host)
    assert host.text(f"{g.STATE}/n1/etc/proxies.env") == f"HTTPS_PROXY='{PROXIES['https']}'\nNO_PROXY='.svc'\n"
    assert host.mode(f"{g.STATE}/n1/etc/proxies.env") == 0o600
    assert plan_of(ENGINE, proxied, host).steps == ()
    other = g.desired(proxies={**PROXIES, "https": "http://10.0.0.2:3128"})
    assert [step.title for step in plan_of(ENGINE, other, host).steps] == [path, containerd]
    without = plan_of(ENGINE, g.desired(), host)
    assert sorted(step.title for step in without.steps) == sorted([path, containerd])
    apply(ENGINE, g.desired(state="absent"), host)


def test_a_proxys_password_is_in_nothing_but_files_of_root(host: Kernel) -> None:
    proxied = g.desired(proxies=PROXIES)
    diff = plan_diff(plan_of(ENGINE, proxied, host))
    apply(ENGINE, proxied, host)
    files = [path for path in host.paths("/") if (stat := host.stat(path)) is not None and stat.kind == "file"]
    holders = [path for path in files if SECRET in host.text(path)]
    assert f"{g.STATE}/n1/etc/proxies.env" in holders
    assert [path for path in holders if host.mode(path) & 0o077] == []
    assert SECRET not in str(diff)
    assert SECRET not in str(ENGINE.report(Context(proxied, host)))
    assert [process.argv for process in host.processes.values() if SECRET in str(process.argv)] == []


@pytest.mark.parametrize(
    ("change", "restarted"),
    [
        ({"credentials": [{**g.credentials("n1"), "kubelet_key": "another"}]}, ["containerd", "kubelet"]),
        ({"credentials": [{**g.credentials("n1"), "kube_proxy_key": "another"}]}, ["kube-proxy"]),
        ({"credentials": [{**g.credentials("n1"), "service_proxy_key": "another"}]}, []),
        ({"ca": "another"}, ["containerd", "kubelet", "kube-proxy"]),
    ],
)
def test_renewed_credentials_restart_the_services_that_have_them(
    host: Kernel, change: dict[str, Any], restarted: list[str]
) -> None:
    apply(ENGINE, g.desired(), host)
    plan = plan_of(ENGINE, g.desired(**change), host)
    files = ["file"] if restarted else []
    assert [step.kind for step in plan.steps] == [*files, *("service" for _name in restarted)]
    services = [step.title for step in plan.steps if step.kind == "service"]
    assert services == [f"service ballast-lab-n1-{name}" for name in restarted]


def test_limits_are_changed_while_the_instance_runs(host: Kernel) -> None:
    apply(ENGINE, g.desired(), host)
    rows = [g.instance(1, cpu="1500m", memory="1Gi", pids=500)]
    apply(ENGINE, g.desired(instances=rows), host)
    if host.is_systemd():
        unit = host.text("/etc/systemd/system/ballast-lab-n1.slice")
        assert all(row in unit for row in ("CPUQuota=150%", "MemoryMax=1073741824", "TasksMax=500"))
    else:
        v1 = host.stat("/sys/fs/cgroup/cpu") is not None
        found = host.text(
            f"/sys/fs/cgroup/{'memory/' if v1 else ''}ballast-lab-n1/memory.{'limit_in_bytes' if v1 else 'max'}"
        )
        assert found == "1073741824\n"
