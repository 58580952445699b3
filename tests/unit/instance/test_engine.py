# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances that are made, run, stopped and removed, on machines of each kind."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._instance.engine import ENGINE
from tests.unit.cases import apply, check_kills, plan_of
from tests.unit.fakes import FakeHost, json_answer
from tests.unit.instance import given as g
from tests.unit.instance.kernel import DATABASE, DEFAULT_IPV6, HERE, Kernel
from tests.unit.instance.test_model import dual

OPTIONS = f"{g.STATE}/options.json"
PROGRESS = Progress(NullSink(), feature="test")
# Each supervisor and each version of cgroups, once: a kill at every effect takes a minute or more for a machine.
KILLED = ("runit, cgroup v1", "systemd")


# Mount points of every instance.
SHOWN = {
    *("/", "/etc", "/run", "/var", "/var/lib/ballast", g.STATE, g.BIN, f"{g.STATE}/certs.d"),
    *("/run/containerd", "/run/netns", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers"),
}


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
    cgroups, systemd = g.MACHINES[name]
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
        elif (to := host.readlink(path)) is not None:
            restarted.given_link(path, to)
        elif "/supervise/" not in path:
            restarted.given(path, host.text(path), mode=host.mode(path))
    apply(ENGINE, g.desired(), restarted)
    assert runs(restarted)
    apply(ENGINE, g.desired(state="absent"), restarted)
    assert [path for path in restarted.paths("/run") if "lab" in path or "netns" in path] == []


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
        if resource.kind in ("directory", "file", "symlink", "image-store", "image-seed"):
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
