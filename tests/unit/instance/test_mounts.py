# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import (
    BallastError,
    CommandFailed,
    Problems,
)
from ansible_collections.ballast.kube.plugins.module_utils._instance import mounts, view
from ansible_collections.ballast.kube.plugins.module_utils._instance.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._instance.node_mounts import find_problems
from ansible_collections.ballast.kube.plugins.module_utils._instance.resolvers import OF_RESOLVED
from tests.unit.cases import apply, plan_of
from tests.unit.instance import given as g

PATH = "/run/ballast/lab/n1.mnt.new"


class Kernel:
    """Refuses to bind a namespace that is made on another processor than `works_on`."""

    def __init__(self, works_on: str, says: str = "Invalid argument") -> None:
        self.works_on = works_on
        self.says = says
        self.tried: list[str] = []

    def run(self, argv: Sequence[str], **_options: Any) -> None:
        cpu = argv[2] if argv[0] == "taskset" else "any"
        self.tried.append(cpu)
        if cpu != self.works_on:
            raise CommandFailed(argv, status=1, output=f"unshare: mount failed: {self.says}")


@pytest.fixture(autouse=True)
def _three_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 5})


def test_a_namespace_that_counts_as_older_is_made_on_another_processor() -> None:
    for works_on, tried in (("any", ["any"]), ("1", ["any", "0", "1"]), ("5", ["any", "0", "1", "5"])):
        kernel = Kernel(works_on)
        mounts._unshare(kernel, PATH)  # type: ignore[arg-type]
        assert kernel.tried == tried


def test_another_refusal_is_told_at_once_and_the_last_one_in_any_case() -> None:
    for kernel, tries in ((Kernel("none", "Operation not permitted"), 1), (Kernel("none"), 4)):
        with pytest.raises(CommandFailed):
            mounts._unshare(kernel, PATH)  # type: ignore[arg-type]
        assert len(kernel.tried) == tries


HOME = f"{g.STATE}/n1"
MOUNTNS = "/run/ballast/lab/n1.mnt"
MOUNTED = [
    *(
        "/home ext4",
        "/home/x nfs4",
        "/home/x/gvfs fuse.gvfsd",
        "/proc proc",
        "/srv/disk xfs",
        "/srv/disk/docker overlay",
    ),
    *("/etc/hosts overlay", "/srv/auto autofs", "/var/lib/ballast/lab ext4", "/srv/a\\040b ext4", "/srv/gone ext4"),
]


def rows_of(*mounted: str) -> dict[str, view.Row]:
    """What an instance on such a machine shows, by path in it."""
    host = g.machine()
    look, refused = host.stat, [row.split(" ")[0] for row in mounted if row.split(" ")[1][:4] in ("fuse", "auto")]

    def stat(path: str) -> Any:
        assert path not in refused, "root may not look at FUSE of other users, and a look at an automount makes it"
        return look(path)

    host.stat = stat  # type: ignore[method-assign]
    for path in ("/home/x/gvfs", "/srv/disk/docker", "/srv/auto", "/var/lib/ballast/lab", "/proc/1", "/usr/bin"):
        host.given_directory(path)
    host.given_directory("/scratch", mode=0o1777)
    host.given("/etc/hosts", "127.0.0.1 localhost\n")
    host.symlink("/bin", "usr/bin")
    lines = (f"30 1 0:1 / {row.split(' ')[0]} rw - {row.split(' ')[1]} none rw\n" for row in mounted)
    host.given("/proc/self/mountinfo", "".join(lines))
    rows = {row.target.removeprefix(f"{HOME}/root"): row for row in view.prepare(host, HOME)}
    assert host.readlink(f"{HOME}/root/bin") == "usr/bin"
    assert host.mode(f"{HOME}/changes/scratch/upper") == 0o1777
    assert host.mode(f"{HOME}/changes") == 0o700
    return rows


def test_an_instance_writes_to_its_own_copy_of_what_is_not_a_program_or_of_the_kernel() -> None:
    rows = rows_of()
    for path in ("/etc", "/home", "/srv", "/tmp", "/var"):
        changes = f"{HOME}/changes{path}"
        assert rows[path].kind == "overlay"
        assert rows[path].options == f"lowerdir={path},upperdir={changes}/upper,workdir={changes}/work"
    assert {path for path, row in rows.items() if row.options == "rbind"} >= {"/proc", "/run", "/sys", "/usr"}


def test_mounts_of_the_host_are_shown_too_and_a_disk_is_not_written_to() -> None:
    rows = rows_of(*MOUNTED)
    assert rows["/srv/disk"].kind == "overlay"
    assert rows["/srv/disk"].options.endswith(f"workdir={HOME}/changes/srv%disk/work,X-mount.mkdir")
    assert {path for path, row in rows.items() if row.options == "bind"} == {"", "/etc/hosts"}
    # A pod may have removed the directory since.
    assert {path for path, row in rows.items() if row.options == "bind,X-mount.mkdir"} == {
        *("/home/x", "/var/cache/ballast", "/var/lib/ballast", "/var/lib/ballast/lab"),
    }
    order = list(rows)
    assert order.index("/var") < order.index("/var/lib/ballast") < order.index("/var/lib/ballast/lab")


def test_what_no_overlay_can_lie_over_is_shown_as_it_is_or_not_at_all() -> None:
    """An overlay over an automount or a FAT is refused by the kernel, and a mount needs a place in what is shown above it."""
    rows = rows_of(
        *("/home autofs", "/home/x nfs4", "/srv vfat", "/srv/disk xfs", "/scratch tmpfs", "/var/lib/auto autofs")
    )
    assert rows["/srv"].options == "rbind"
    assert rows["/scratch"].kind == "overlay"
    assert not [path for path in rows if path.startswith(("/home", "/srv/", "/var/lib/auto"))]


def test_settings_of_programs_of_the_host_are_shown_as_they_are_now() -> None:
    host = g.machine()
    apply(ENGINE, g.desired(), host)
    assert f"/etc/ballast {HOME}/root/etc/ballast none bind,X-mount.mkdir" in host.text(f"{HOME}/etc/fstab")


def test_containerd_asks_the_resolvers_behind_a_stub_that_no_network_namespace_reaches() -> None:
    host, link = g.machine(), f"{HOME}/changes/etc/upper/resolv.conf"
    host.given("/etc/resolv.conf", "nameserver 127.0.0.53\n")
    view.prepare(host, HOME)
    assert host.stat(link) is None, "there is no better one"
    host.given(OF_RESOLVED, "nameserver 192.0.2.1\n")
    for _run in range(2):
        view.prepare(host, HOME)
        assert host.readlink(link) == OF_RESOLVED
    host.given("/etc/resolv.conf", "nameserver 192.0.2.1\n")
    view.prepare(host, HOME)
    assert host.stat(link) is None, "the host's own is of use now"
    host.given("/etc/resolv.conf", "nameserver 127.0.0.53\n")
    host.given(link, "nameserver 192.0.2.9\n")
    view.prepare(host, HOME)
    assert host.read(link) == b"nameserver 192.0.2.9\n", "what was written inside stays"


def test_a_file_of_resolvers_that_is_mounted_is_shown_as_it_is() -> None:
    host = g.machine()
    host.given("/etc/resolv.conf", "nameserver 127.0.0.11\n")
    host.given(OF_RESOLVED, "nameserver 192.0.2.1\n")
    host.given("/proc/self/mountinfo", "9 1 8:1 / /etc/resolv.conf rw - ext4 /dev/sda1 rw\n")
    rows = view.prepare(host, HOME)
    assert "/etc/resolv.conf" in [row.source for row in rows]
    assert host.stat(f"{HOME}/changes/etc/upper/resolv.conf") is None


def test_a_line_of_the_table_is_quoted() -> None:
    assert view.bind("/a b", "/x\\y").as_line() == "/a\\040b /x\\134y none bind,X-mount.mkdir 0 0\n"


def test_a_namespace_of_an_earlier_version_stays_until_the_instance_is_stopped() -> None:
    host = g.machine()
    apply(ENGINE, g.desired(), host)
    host.given(f"{MOUNTNS}.json", json.dumps({"mounts": [{"target": "/run/netns", "source": ""}]}))
    assert plan_of(ENGINE, g.desired(), host).steps == ()
    apply(ENGINE, g.desired(state="stopped"), host)
    apply(ENGINE, g.desired(), host)
    assert json.loads(host.text(f"{MOUNTNS}.json"))["home"] == HOME


def mounted(read_only: bool = False, **changes: str) -> dict[str, Any]:
    row = {"host": "/srv/data", "node": "/data", "read_only": read_only, **changes}
    return {"instances": [g.instance(1, mounts=[row]), g.instance(2)]}


def test_a_mount_of_the_user_ends_the_pods_and_restarts_the_services_of_its_instance_alone() -> None:
    host = g.machine()
    host.given_directory("/srv/data")
    apply(ENGINE, g.desired(2), host)
    pods = {}
    for name in ("n1", "n2"):
        pods[name] = host.given_process(["sleep"])
        host.make_directory(f"/sys/fs/cgroup/ballast-lab-{name}/kubepods")
        host.write_kernel_file(f"/sys/fs/cgroup/ballast-lab-{name}/kubepods/cgroup.procs", str(pods[name]))
    steps = {(step.kind, step.target) for step in plan_of(ENGINE, g.desired(2, **mounted()), host).steps}
    services = [target for kind, target in steps if kind == "service"]
    assert len(services) == 3
    assert all(target.startswith(f"{HOME}/") for target in services)
    assert {target for kind, target in steps if kind == "mountns"} == {MOUNTNS}
    apply(ENGINE, g.desired(2, **mounted(read_only=True)), host)
    assert ("/srv/data", "/data", "none", "ro") in host.inner_mounts[MOUNTNS]
    assert pods["n1"] not in host.processes
    assert pods["n2"] in host.processes
    assert plan_of(ENGINE, g.desired(2, **mounted(read_only=True)), host).steps == ()


@pytest.mark.parametrize(
    ("changes", "id"),
    [
        ({"host": "srv"}, "instance-path"),
        ({"node": "/a/../b"}, "instance-path"),
        ({"node": "/"}, "instance-path"),
        ({"node": "/usr/local"}, "instance-mount-place"),
        ({"node": "/var"}, "instance-mount-place"),
        ({"node": "/var/lib/kubelet/x"}, "instance-mount-place"),
        ({"node": g.STATE}, "instance-mount-place"),
    ],
)
def test_a_mount_that_would_hide_what_an_instance_needs_is_refused(changes: dict[str, str], id: str) -> None:
    with pytest.raises((BallastError, Problems)) as caught:
        g.desired(2, **mounted(**changes))
    assert id in {problem.id for problem in getattr(caught.value, "problems", [caught.value])}


def test_a_mount_on_another_name_of_what_an_instance_needs_is_refused() -> None:
    host = g.machine()
    host.given_directory("/srv/data")
    host.symlink("/var/run", "/run")
    for node, id in (("/var/run/app", "instance-mount-place"), ("/var/lib/app", "")):
        desired = g.desired(2, **mounted(node=node))
        found = find_problems(desired.instances[0].mounts, host, "mounts")
        assert [problem.id for problem in found] == ([id] if id else [])


def test_a_mount_is_made_in_the_instance_where_the_host_has_a_link_on_the_way() -> None:
    """A link with the whole path, taken from outside, leads to the host's own directory."""
    host = g.machine()
    host.given_directory("/data/kubelet")
    host.symlink("/var/lib/kubelet", "/data/kubelet")
    host.given_directory("/data/ballast/lab")
    rows = [{"target": "/var/lib/kubelet", "source": f"{HOME}/kubelet"}, {"target": "/run/netns", "source": ""}]
    host.given_directory(f"{HOME}/etc")
    targets = [row.target for row in mounts._rows(host, HOME, rows)]
    assert targets[-2:] == [f"{HOME}/root/data/kubelet", f"{HOME}/root/run/netns"]


@pytest.mark.parametrize(
    ("systemd", "place"),
    [(False, "ballast-lab-n1"), (True, "ballast.slice/ballast-lab.slice/ballast-lab-n1.slice")],
)
def test_no_process_stays_in_a_namespace_that_another_replaces(systemd: bool, place: str) -> None:
    """A service that is started again each second must not come into the old one between the end of its processes and that of the
    namespace; and a run that was killed between the two has left them."""
    host = g.machine(systemd=systemd)
    apply(ENGINE, g.desired(), host)
    pod = host.given_process(["sleep"])
    host.make_directory(f"/sys/fs/cgroup/{place}/kubepods")
    host.write_kernel_file(f"/sys/fs/cgroup/{place}/kubepods/cgroup.procs", str(pod))
    mounts.MOUNT_KINDS["mountns"].remove(Context(None, host), MOUNTNS, {})
    apply(ENGINE, g.desired(), host)
    assert pod not in host.processes


def test_a_mount_below_another_is_made_after_it() -> None:
    host = g.machine()
    rows = [
        {"host": f"/srv/{name}", "node": node, "read_only": False} for name, node in (("b", "/data/b"), ("a", "/data"))
    ]
    for row in rows:
        host.given_directory(str(row["host"]))
    apply(ENGINE, g.desired(instances=[g.instance(1, mounts=rows)]), host)
    assert [row[1] for row in host.inner_mounts[MOUNTNS]][-2:] == ["/data", "/data/b"]


def test_a_link_of_the_host_that_leads_nowhere_is_not_there() -> None:
    host = g.machine()
    host.given_directory("/srv")
    host.symlink("/srv/data", "gone")
    found = find_problems(g.desired(2, **mounted()).instances[0].mounts, host, "mounts")
    assert [problem.id for problem in found] == ["instance-mount-missing"]


def test_a_mount_of_what_is_not_there_is_refused() -> None:
    host, desired = g.machine(), g.desired(2, **mounted())
    ctx = Context(desired, host)
    with pytest.raises(BallastError) as caught:
        ENGINE.require(ctx, ENGINE.observe(ctx))
    assert "instance-mount-missing" in str(caught.value)
    host.given_directory("/srv/data")
    ENGINE.require(ctx, ENGINE.observe(ctx))
