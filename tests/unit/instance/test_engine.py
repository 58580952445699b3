# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan_report import plan_diff
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.service.service import Service
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems, Unavailable
from ansible_collections.ballast.kube.plugins.module_utils._instance.engine import BINARIES, ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._instance.model import InstancesRequest
from tests.unit.cases import apply, check_kills, plan_of, require
from tests.unit.fake_supervisors import given_service
from tests.unit.fakes import FakeHost, json_answer
from tests.unit.instance import given as g
from tests.unit.instance.kernel import DATABASE, DEFAULT_IPV6, HERE, Kernel
from tests.unit.instance.test_model import dual

OPTIONS = f"{g.STATE}/options.json"
PROGRESS = Progress(NullSink(), feature="test")
MACHINES = {"runit, cgroup v1": (1, False), "runit, cgroup v2": (2, False), "systemd": (2, True)}
# Each supervisor and each version of cgroups, once: a kill at every effect takes a minute or more for a machine.
KILLED = ("runit, cgroup v1", "systemd")


# Mount points of every instance.
SHOWN = {
    *("/", "/etc", "/run", "/var", "/var/lib/ballast", g.STATE, g.BIN, f"{g.STATE}/certs.d"),
    *("/run/containerd", "/run/netns", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers"),
}


@pytest.fixture(params=list(MACHINES))
def host(request: pytest.FixtureRequest) -> Kernel:
    cgroups, systemd = MACHINES[request.param]
    return g.machine(cgroups=cgroups, systemd=systemd)


def runs(host: FakeHost, count: int = 1) -> bool:
    """Everything that makes the instances, as somebody who looks at the machine would see it."""
    assert isinstance(host, Kernel)
    for number in range(1, count + 1):
        inside, home = host.namespaces.get(f"ballast-lab-n{number}"), f"{g.STATE}/n{number}"
        services = [process.argv[0] for process in host.processes.values() if f"lab-n{number}-" in process.argv[0]]
        if (
            inside is None
            or inside.links["eth0"].addresses != [f"10.97.0.{10 + number}/24"]
            or not inside.links["lo"].up
            or inside.routes != {"default": "10.97.0.1"}
            or inside.sysctls["net.ipv4.ip_forward"] != "1"
            or host.namespaces[HERE].routes.get(f"10.128.{number}.0/24") != f"10.97.0.{10 + number}"
            or len(services) != 3
            or not {row[1] for row in host.inner_mounts[f"/run/ballast/lab/n{number}.mnt"]} >= SHOWN
            or host.mode(f"{home}/pki/kubelet.key") != 0o600
            or "sha256:2222" not in host.text(f"{home}/containerd/{DATABASE}")
        ):
            return False
    return True


def test_a_machine_carries_instances_and_is_as_before_when_they_are_removed(host: Kernel) -> None:
    before = host.snapshot()
    plan = plan_of(ENGINE, g.desired(2), host)
    assert len(plan.steps) > 70
    assert host.effects == [], "observing and planning change nothing"
    apply(ENGINE, g.desired(2), host)
    assert runs(host, 2)
    done = len(host.effects)
    assert apply(ENGINE, g.desired(2), host).steps == ()
    assert host.effects[done:] == []
    apply(ENGINE, g.desired(2, state="absent", instances=None, credentials=None, archives=None), host)
    assert host.snapshot() == before


def test_an_instance_of_both_ip_families_is_made_once_stopped_and_removed(host: Kernel) -> None:
    before = host.snapshot()
    wanted = g.desired(**dual())
    apply(ENGINE, wanted, host)
    inside = host.namespaces["ballast-lab-n1"]
    assert inside.links["eth0"].addresses == ["10.97.0.11/24", "fd00::b/64"]
    assert inside.routes == {"default": "10.97.0.1", DEFAULT_IPV6: "fd00::1"}
    assert inside.sysctls["net.ipv6.conf.all.forwarding"] == "1"
    assert {"10.128.1.0/24": "10.97.0.11", "fd00:1::/64": "fd00::b"}.items() <= host.namespaces[HERE].routes.items()
    assert apply(ENGINE, wanted, host).steps == ()
    inside.sysctls["net.ipv6.conf.all.forwarding"] = "0"
    assert [step.kind for step in apply(ENGINE, wanted, host).steps] == ["netns-ipv6"], "the next run repairs it"
    apply(ENGINE, g.desired(**dual(), state="stopped"), host)
    apply(ENGINE, wanted, host)
    apply(ENGINE, g.desired(state="absent", instances=None, credentials=None, archives=None), host)
    assert host.snapshot() == before


def test_a_full_disk_stops_neither_a_stop_nor_a_removal(host: Kernel) -> None:
    before = host.snapshot()
    apply(ENGINE, g.desired(2), host)
    host.fill_disk()
    apply(ENGINE, g.desired(2, state="stopped"), host)
    assert host.processes == {}
    host.fill_disk()
    apply(ENGINE, g.desired(2, state="absent", instances=None, credentials=None, archives=None), host)
    assert host.snapshot() == before
    apply(ENGINE, g.desired(2), host)
    host.fill_disk()
    apply(ENGINE, g.desired(2, state="absent", instances=None, credentials=None, archives=None), host)
    host.empty_disk()
    assert host.snapshot() == before


def test_where_a_daemonset_runs_kube_proxy_the_instance_has_no_service_of_it_and_asks_for_its_health() -> None:
    host = g.machine()
    host.given_directory("/lib")
    before = host.snapshot()
    wanted = g.desired(kube_proxy="daemonset", ready_seconds=5.0)
    apply(ENGINE, wanted, host)
    services = sorted(process.argv[0] for process in host.processes.values() if "lab-n1-" in process.argv[0])
    assert [name.split("-")[-1] for name in services] == ["containerd/run", "kubelet/run"]
    assert host.stat("/lib/modules") is not None
    host.answer("https://10.97.0.1:6443/api/v1/nodes/n1", json_answer(200, g.node()))
    [finding] = ENGINE.verify(Context(wanted, host, PROGRESS))
    assert finding.id == "instance-proxy"
    g.answer_ready(host)
    assert ENGINE.verify(Context(wanted, host, PROGRESS)) == []
    report: Any = ENGINE.report(Context(wanted, host))
    assert sorted(report["instances"][0]["pids"]) == ["containerd", "kubelet"]
    gone = g.desired(kube_proxy="daemonset", state="absent", instances=None, credentials=None, archives=None)
    apply(ENGINE, gone, host)
    ready = {f"{g.STATE}/n1/ready.json"}
    assert {path for path in host.snapshot() if path not in ready} == set(before)


@pytest.mark.parametrize("name", KILLED)
def test_killed_at_any_effect_the_next_run_finishes_or_removes_it(name: str) -> None:
    cgroups, systemd = MACHINES[name]
    kills = check_kills(
        ENGINE,
        lambda: g.machine(cgroups=cgroups, systemd=systemd),
        g.desired(),
        g.desired(state="absent"),
        runs,
    )
    assert kills > 400


def test_one_instance_more_or_less_touches_no_other(host: Kernel) -> None:
    apply(ENGINE, g.desired(2), host)
    pids = {process.argv[0]: pid for pid, process in host.processes.items()}
    more = plan_of(ENGINE, g.desired(3), host)
    assert {step.group for step in more.steps if step.target != OPTIONS} == {"node n3"}
    apply(ENGINE, g.desired(3), host)
    less = plan_of(ENGINE, g.desired(2), host)
    assert {(step.group, step.verb) for step in less.steps if step.target != OPTIONS} == {("node n3", "remove")}
    apply(ENGINE, g.desired(2), host)
    assert {process.argv[0]: pid for pid, process in host.processes.items()} == pids


def test_removal_is_the_exact_reverse_of_making(host: Kernel) -> None:
    made = apply(ENGINE, g.desired(2), host)
    removed = plan_of(ENGINE, g.desired(2, state="absent"), host)
    assert {step.after for step in removed.steps} == {None}
    assert [step.key for step in removed.steps] == [step.key for step in reversed(made.steps)]


def test_services_of_all_nodes_end_together() -> None:
    host, stopped = g.machine(), list[int]()
    apply(ENGINE, g.desired(3), host)
    run = host.run

    def kept(argv: Sequence[str], **options: Any) -> Any:
        if "force-stop" in argv:
            stopped.append(sum(f"{g.STATE}/n" in word for word in argv))
        return run(argv, **options)

    host.run = kept  # type: ignore[method-assign]
    apply(ENGINE, g.desired(1), host)
    apply(ENGINE, g.desired(state="absent", instances=None), host)
    assert stopped == [6, 3]


def test_pods_of_all_nodes_are_killed_before_the_first_node_is_removed() -> None:
    host, killed = g.machine(), list[int]()
    apply(ENGINE, g.desired(2), host)
    pods = [host.given_process(["/bin/pod"]) for _node in range(2)]
    for number, pod in enumerate(pods, start=1):
        host.make_directory(f"/sys/fs/cgroup/ballast-lab-n{number}/pod")
        host.write_kernel_file(f"/sys/fs/cgroup/ballast-lab-n{number}/pod/cgroup.procs", str(pod))
    remove = host.remove_directory

    def kept(path: str) -> None:
        killed.append(sum(pod not in host.processes for pod in pods))
        remove(path)

    host.remove_directory = kept  # type: ignore[method-assign]
    apply(ENGINE, g.desired(state="absent", instances=None), host)
    assert killed[0] == len(pods)


def test_images_are_asked_for_when_the_runtimes_of_all_nodes_have_been_started(host: Kernel) -> None:
    kinds = [step.kind for step in plan_of(ENGINE, g.desired(3), host).steps]
    last = max(number for number, kind in enumerate(kinds) if kind == "service")
    assert min(number for number, kind in enumerate(kinds) if kind == "image") > last


def test_an_archive_that_comes_back_with_other_images_is_no_reason_to_need_containerd_at_the_end() -> None:
    """An add-on that was removed, built anew and added again: its old images stay in the node, and are not to be put back."""
    host, before = g.machine(), g.machine().snapshot()
    first, again = ({"path": "/add-on.tar", "images": {"add-on:1": f"sha256:{digit * 64}"}} for digit in "ab")
    own = {"path": g.ARCHIVE, "images": g.IMAGES}
    for archive, archives in ((first, [own, first]), (None, [own]), (again, [own, again])):
        if archive is not None:
            host.given("/add-on.tar", json.dumps(archive["images"]))
        apply(ENGINE, g.desired(archives=archives), host)
        assert plan_of(ENGINE, g.desired(archives=archives), host).steps == ()
    apply(ENGINE, g.desired(state="absent", instances=None, credentials=None, archives=None), host)
    host.remove("/add-on.tar")
    assert host.snapshot() == before


def test_ctr_is_not_run_for_a_containerd_that_is_stopped(host: Kernel) -> None:
    """It would wait ten seconds for each node."""
    apply(ENGINE, g.desired(2), host)
    for pid, process in list(host.processes.items()):
        if "-n1-containerd" in process.argv[0]:
            del host.processes[pid]
    done = len(host.commands)
    apply(ENGINE, g.desired(state="absent", instances=None), host)
    sockets = {argv[2] for argv in host.commands[done:] if argv[0].endswith("/ctr")}
    assert sockets == {"/run/ballast/lab/n2/containerd.sock"}


def test_stopped_keeps_directories_and_files_and_starts_again_with_the_same(host: Kernel) -> None:
    apply(ENGINE, g.desired(2), host)
    files = {path: host.text(path) for path in host.paths(g.STATE) if path.endswith((".key", ".json", "meta.db"))}
    kept = {path: text for path, text in files.items() if "/sv/" not in path}
    apply(ENGINE, g.desired(state="stopped", instances=None), host)
    assert not runs(host)
    assert host.processes == {}
    assert set(host.namespaces) == {HERE}
    assert host.namespaces[HERE].routes == {}
    assert [path for path in host.paths("/sys/fs/cgroup") if "ballast" in path] == []
    assert kept.items() <= {path: host.text(path) for path in kept}.items()
    done = len(host.effects)
    apply(ENGINE, g.desired(state="stopped", instances=None), host)
    assert host.effects[done:] == []
    apply(ENGINE, g.desired(2), host)
    assert runs(host, 2)


def test_after_a_restart_of_the_host_the_same_is_made_again() -> None:
    host = g.machine()
    apply(ENGINE, g.desired(), host)
    restarted = g.machine()  # /run, /proc, /sys, links and processes are gone, the disk is not
    for path in host.paths("/var/lib"):
        if host.stat(path).kind == "directory":  # type: ignore[union-attr]
            restarted.given_directory(path, mode=host.mode(path))
        elif "/supervise/" not in path:
            restarted.given(path, host.text(path), mode=host.mode(path))
    apply(ENGINE, g.desired(), restarted)
    assert runs(restarted)
    apply(ENGINE, g.desired(state="absent"), restarted)
    assert [path for path in restarted.paths("/run") if "lab" in path or "netns" in path] == []


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


def test_pods_that_are_left_end_with_the_instance() -> None:
    host = g.machine()
    apply(ENGINE, g.desired(), host)
    pid = host.given_process(["sleep"])
    host.make_directory("/sys/fs/cgroup/ballast-lab-n1/kubepods")
    host.write_kernel_file("/sys/fs/cgroup/ballast-lab-n1/kubepods/cgroup.procs", str(pid))
    apply(ENGINE, g.desired(state="absent"), host)
    assert host.processes == {}
    assert host.stat("/sys/fs/cgroup/ballast-lab-n1") is None


@given(count=st.integers(min_value=1, max_value=6), driver=st.sampled_from(["systemd", "cgroupfs"]))
def test_what_is_made_bears_our_mark_and_keeps_keys_to_its_owner(count: int, driver: str) -> None:
    resources = ENGINE.wanted(Context(g.desired(count, cgroup_driver=driver), FakeHost()))
    assert len({resource.key for resource in resources}) == len(resources)
    for resource in resources:
        named = resource.target.split(" ")[0]
        if resource.kind in ("directory", "file", "image-store", "image-seed"):
            assert named.startswith(f"{g.STATE}/")
        elif resource.kind in ("service", "supervisor"):
            assert named.startswith(f"{g.STATE}/")
            assert resource.kind == "supervisor" or re.search(r"/ballast-[^/]+$", named)
        elif resource.kind in ("netns", "veth", "cgroup"):
            assert named.startswith("ballast")
            assert resource.kind != "veth" or len(named) <= 15
        elif resource.kind in ("mountns", "private-directory", "run-directory", "image"):
            assert named.startswith("/run/ballast/")
        else:
            assert resource.kind in ("sysctl-minimum", "shared-directory", "route")


def test_only_files_for_their_owner_hold_key_material() -> None:
    secrets = [
        text.strip() for row in g.params(2)["credentials"] for name, text in row.items() if name.endswith("_key")
    ]
    wanted = g.desired(2, instances=[g.instance(1), g.instance(2, proxy_backend="ballast")])
    holders = [
        one for one in ENGINE.wanted(Context(wanted, FakeHost())) if any(secret in str(one.value) for secret in secrets)
    ]
    # Each has the key of its own proxy alone.
    assert [one.target.removeprefix(g.STATE) for one in holders] == [
        f"/{node}/pki/{name}.key"
        for node, proxy in (("n1", "kube-proxy"), ("n2", "service-proxy"))
        for name in ("kubelet", "kubelet-serving", proxy)
    ]
    assert {(one.kind, "'mode': 384" in str(one.value)) for one in holders} == {("file", True)}


def test_two_labs_on_one_host_do_not_touch_each_other(host: Kernel) -> None:
    host.given_bridge("ballast-two", "10.97.1.1/24")
    two = {
        "lab": "two",
        "state_dir": "/var/lib/ballast/two/nodes",
        "bridge": "ballast-two",
        "gateway": "10.97.1.1/24",
        "instances": [g.instance(1, address="10.97.1.11", pod_cidr="10.129.1.0/24")],
    }
    host.given_directory("/var/lib/ballast/two")
    before = host.snapshot()
    apply(ENGINE, g.desired(), host)
    apply(ENGINE, g.desired(**two), host)
    apply(ENGINE, g.desired(state="absent"), host)
    assert "ballast-two-n1" in host.namespaces
    assert len(host.processes) == 4  # three services and their supervisor, or their slice
    apply(ENGINE, g.desired(**{**two, "state": "absent"}), host)
    assert host.snapshot() == before


def needs(desired: InstancesRequest, host: Kernel) -> list[str]:
    try:
        require(ENGINE, desired, host)
    except Problems as problems:
        return [problem.id for problem in problems.problems]
    except BallastError as error:
        return [error.id]
    return []


def test_credentials_that_are_empty_are_none() -> None:
    """As where Ansible's user may not read those that root has."""
    whole = g.credentials("n1")
    host = g.machine()
    assert needs(g.desired(1, ca=""), host) == ["instance-no-credentials"]
    lacking = {name: "" if name == "kubelet_key" else text for name, text in whole.items()}
    assert needs(g.desired(1, credentials=[lacking]), host) == ["instance-no-credentials"]


def test_everything_that_is_not_there_is_told_at_once() -> None:
    host = Kernel()
    assert needs(g.desired(2, credentials=[g.credentials("n2")]), host) == [
        "instance-no-credentials",
        "instance-no-binary",
        "instance-no-bridge",
    ]
    assert host.effects == []
    assert needs(g.desired(2), g.machine()) == []
    assert needs(g.desired(state="absent"), host) == []


def findings(host: Kernel, desired: InstancesRequest) -> list[tuple[str, str, str]]:
    apply(ENGINE, desired, host)
    return [(found.id, found.subject, found.text) for found in ENGINE.verify(Context(desired, host, PROGRESS))]


def test_an_instance_is_ready_when_its_node_and_its_proxy_say_so(host: Kernel) -> None:
    g.answer_ready(host, 2)
    assert findings(host, g.desired(2)) == []
    report = ENGINE.report(Context(g.desired(2), host))["instances"]
    assert isinstance(report, list)
    assert [(row["name"], row["ready"], row["kubelet_version"]) for row in report] == [
        ("n1", True, "v1.37.1+lab"),
        ("n2", True, "v1.37.1+lab"),
    ]
    assert set(report[0]["pids"]) == {"containerd", "kubelet", "kube-proxy"}
    assert ENGINE.verify(Context(g.desired(state="absent"), host, PROGRESS)) == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (json_answer(404, {}), "the kubelet has not registered its Node yet"),
        (json_answer(403, {}), "the API server returns status 403 for its Node"),
        (json_answer(200, g.node(ready="False", message="network plugin not ready")), "network plugin not ready"),
        (json_answer(200, {}), "its Node has no condition Ready yet"),
        (json_answer(200, g.node(heartbeat="2020-01-01T00:00:00Z")), "is older than the kubelet's start"),
        (json_answer(200, g.node(heartbeat="yesterday")), "is older than the kubelet's start"),
        (None, "Connection refused"),
    ],
)
def test_a_node_that_does_not_become_ready_is_told_with_what_was_seen(answer: Response, told: str) -> None:
    host = g.machine()
    if answer is not None:
        host.answer("https://10.97.0.1:6443/api/v1/nodes/n1", answer)
    [(id, subject, text)] = findings(host, g.desired(ready_seconds=3.0))
    assert (id, subject) == ("instance-not-ready", "node n1")
    assert told in text


def test_a_proxy_that_is_not_well_is_told_as_such() -> None:
    host = g.machine()
    host.answer("https://10.97.0.1:6443/api/v1/nodes/n1", json_answer(200, g.node()))
    [(id, _subject, text)] = findings(host, g.desired(ready_seconds=3.0))
    assert id == "instance-proxy"
    assert "Connection refused" in text
    host.answer("http://10.97.0.11:10256/healthz", Response(status=503, body=b""))
    [(id, _subject, text)] = findings(host, g.desired(ready_seconds=3.0))
    assert (id, "503" in text) == ("instance-proxy", True)


def test_a_service_that_does_not_stay_up_ends_the_waiting_at_once() -> None:
    host = g.machine()
    apply(ENGINE, g.desired(), host)
    path = next(path for path in host.paths(g.STATE) if path.endswith("n1-kubelet/supervise/pid"))
    host.given(f"{g.STATE}/n1/log/kubelet.log", "it cannot\n")
    sv = path.removesuffix("/supervise/pid")
    host.on_sleep.append(lambda: host.given(path, f"{given_service(host, sv)}\n"))
    began = host.monotonic()
    [found] = ENGINE.verify(Context(g.desired(ready_seconds=180.0), host, PROGRESS))
    assert found.id == "instance-service-fails"
    assert "kubelet keeps failing" in found.text
    assert "it cannot" in found.text
    assert found.remedy.endswith("/n1/log/kubelet.log")
    assert host.monotonic() - began < 5


def test_containerd_that_does_not_answer_is_an_error() -> None:
    host = g.machine()
    host.supervisor.crashing.add("ballast-lab-n1-containerd")
    with pytest.raises(BallastError) as caught:
        apply(ENGINE, g.desired(), host)
    assert caught.value.id in ("instance-containerd", "core-supervisor")


def test_seconds_to_ready_are_noted_once_for_each_start() -> None:
    host = g.machine()
    g.answer_ready(host)
    apply(ENGINE, g.desired(), host)
    target = f"{g.STATE}/n1/sv/ballast-lab-n1-kubelet"
    pid = int(host.text(f"{target}/supervise/pid"))
    host.given(f"/proc/{pid}/stat", f"{pid} (kube let) S " + " ".join(["1"] * 18) + " 9750 1\n")
    ENGINE.verify(Context(g.desired(), host, PROGRESS))
    noted = host.text(f"{g.STATE}/n1/ready.json")
    assert noted == f'{{"pid": {pid}, "seconds": 2.5}}'
    host.given("/proc/uptime", "900.0 1.0\n")
    done = len(host.effects)
    ENGINE.verify(Context(g.desired(), host, PROGRESS))
    assert host.effects[done:] == []
    assert host.text(f"{g.STATE}/n1/ready.json") == noted


def test_memory_is_that_of_the_services_and_their_shims() -> None:
    host = g.machine()
    apply(ENGINE, g.desired(), host)
    for name, kib in (("containerd", 100), ("kubelet", 50)):
        pid = host.given_process([name])
        host.make_directory(f"/sys/fs/cgroup/ballast-lab-n1/{name}")
        host.write_kernel_file(f"/sys/fs/cgroup/ballast-lab-n1/{name}/cgroup.procs", str(pid))
        host.given(f"/proc/{pid}/smaps_rollup", f"Rss: 900 kB\nPss:  {kib} kB\nPss_Anon: 7 kB\n")
    pod = host.given_process(["pod"])
    host.make_directory("/sys/fs/cgroup/ballast-lab-n1/kubepods")
    host.write_kernel_file("/sys/fs/cgroup/ballast-lab-n1/kubepods/cgroup.procs", str(pod))
    host.given(f"/proc/{pod}/smaps_rollup", "Pss: 9999 kB\n")
    report = ENGINE.report(Context(g.desired(), host))["instances"]
    assert isinstance(report, list)
    assert report[0]["pss_bytes"] == 150 * 1024


def test_a_plan_without_credentials_has_empty_keys_in_check_mode_only() -> None:
    desired = g.desired(credentials=None)
    assert desired.credential(desired.instances[0], "kubelet.key") == ""
    assert replace(desired, state="absent").state == "absent"
    assert ENGINE.preview(Context(desired, FakeHost())) == {"instances": []}
