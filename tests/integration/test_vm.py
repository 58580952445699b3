# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real virtual machine: made, asked, stopped, started with its data, killed, removed without a trace.

The tests share the machine and are run in order. The image is built once and kept in the usual cache.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration import adhoc, hostile, journal
from tests.integration.followed_api import PORT, followed
from tests.integration.test_service_proxy import endpoints, eventually, node_of, web, write_config
from tests.unit.service_proxy.objects import NODE_NAME

ROOT = Path(__file__).resolve().parents[2]
BRIDGE, GATEWAY, ADDRESS = "ballast-vmtest", "10.97.251.1", "10.97.251.101"
# A short path: the machine's sockets lie below it.
STATE_DIR = Path("/var/lib/ballast/vmtest")
VM_AWAY = {"state": "absent", "state_dir": str(STATE_DIR)}
IMAGE_AWAY = {"state": "absent", "name": "vmtest", "recipe": "directory"}

pytestmark = [pytest.mark.vm, pytest.mark.skipif(os.geteuid() != 0, reason="only root can make bridges and taps")]


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=120).stdout


def ansible(name: str, /, *flags: str, fails: bool = False, **options: object) -> dict[str, Any]:
    return adhoc.module(name, *flags, fails=fails, seconds=1800, **options)  # it may have to build an image


@dataclass(frozen=True)
class Lab:
    options: dict[str, Any]
    made: dict[str, Any]  # what lab_vm returned
    state_dir: Path

    def vm(self, **other: Any) -> dict[str, Any]:
        return ansible("lab_vm", **{**self.options, **other})

    def pid(self) -> int:
        """Of the machine as it runs now."""
        found: int = ansible("lab_vm_info", state_dir=str(self.state_dir))["vms"][0]["pid"]
        return found

    def guest(self, order: str, *, stdin: bytes = b"") -> str:
        """The output of a shell command in the machine."""
        options = shlex.split(self.made["vms"][0]["ssh_arguments"])
        argv = ["ssh", "-F", "none", "-i", self.made["ssh_key"], *options, f"root@{ADDRESS}", order]
        done = subprocess.run(argv, check=True, input=stdin, stdout=subprocess.PIPE, timeout=120)
        return done.stdout.decode()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    source = tmp_path_factory.mktemp("binaries")
    (source / "tool").write_text("#!/bin/sh\necho from the disk\n")
    (source / "tool").chmod(0o755)
    (source / "alias").symlink_to(source / "tool")
    with ExitStack() as undo:
        undo.enter_context(journal.link(BRIDGE, "type", "bridge"))
        run("ip", "address", "add", f"{GATEWAY}/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        image = ansible("lab_image", recipe="debian-13")
        undo.enter_context(journal.undone_by(*journal.module("lab_image", IMAGE_AWAY)))
        disk = ansible("lab_image", name="vmtest", recipe="directory", source=str(source))
        undo.enter_context(journal.undone_by(*journal.module("lab_vm", VM_AWAY)))
        options = {
            "state_dir": str(STATE_DIR),
            "image": image["path"],
            "bridge": BRIDGE,
            "uml_kernel": "built",  # as in a lab; Debian's boots on fewer processors
            "disks": [{"path": disk["path"], "mount": "/opt/ballast/bin"}],
            "vms": [{"name": "vm1", "address": f"{ADDRESS}/24", "gateway": GATEWAY, "memory_mib": 768}],
        }
        made = ansible("lab_vm", **options)
        assert made["changed"]
        assert made["vms"][0]["running"]
        yield Lab(options=options, made=made, state_dir=STATE_DIR)


def test_a_killed_machine_is_found_and_started_again(lab: Lab) -> None:
    """The first, since a machine in its first seconds has the most to lose: ssh refuses one that has another key."""
    lab.guest("echo written >/root/written; sync /root/written /root")
    os.kill(lab.pid(), signal.SIGKILL)
    assert [step["title"] for step in lab.vm()["steps"]] == ["virtual machine vm1"]
    assert lab.guest("cat /root/written") == "written\n"


def test_a_second_run_changes_nothing(lab: Lab) -> None:
    assert lab.vm()["steps"] == []
    assert not ansible("lab_image", recipe="debian-13")["changed"]


def test_the_guest_is_what_a_node_needs(lab: Lab) -> None:
    assert lab.guest("hostname") == "vm1\n"
    assert lab.guest("stat -fc %T /sys/fs/cgroup") == "cgroup2fs\n"
    assert "cpu MHz" in lab.guest("cat /proc/cpuinfo")
    assert lab.guest("systemctl is-system-running") == "running\n"
    assert GATEWAY in lab.guest("ip route show default")
    lab.guest("modprobe -a nf_tables ip_vs ip_vs_rr dummy veth overlay br_netfilter nf_conntrack")
    lab.guest("iptables-legacy -t nat -A PREROUTING -m comment --comment probe -j ACCEPT && iptables-legacy -t nat -F")
    lab.guest("ipvsadm -A -t 10.0.0.1:80 -s rr && ipvsadm -C")
    lab.guest("ip netns add probe && ip netns delete probe")
    for tool in ("containerd", "runc", "nft", "iptables", "ipvsadm", "ipset", "conntrack", "python3"):
        assert lab.guest(f"command -v {tool}")


def test_a_machine_of_one_processor_has_one_of_the_host(lab: Lab) -> None:
    bound = os.sched_getaffinity(lab.pid())
    assert len(bound) == (1 if lab.made["engine"] == "uml" else len(os.sched_getaffinity(0)))
    assert bound <= os.sched_getaffinity(0)


def processes_of_the_machine(lab: Lab) -> list[int]:
    """Its first process, which is no program of the machine, and all below it."""
    first = int(Path(f"/proc/{lab.pid()}/status").read_text().partition("PPid:")[2].split()[0])
    namespace = os.readlink(f"/proc/{lab.pid()}/ns/pid")
    found = [int(place.name) for place in Path("/proc").iterdir() if place.name.isdigit()]
    inside = [pid for pid in found if os.path.exists(f"/proc/{pid}/ns/pid") and link_of(pid, "pid") == namespace]
    assert {first, lab.pid()} <= set(inside)
    return inside


def link_of(pid: int, kind: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:  # it has ended
        return ""


def test_no_process_of_a_machine_has_a_privilege(lab: Lab) -> None:
    uid = (lab.state_dir / "vm1" / "disk").stat().st_uid
    assert uid >= 0x70000000
    for pid in processes_of_the_machine(lab):
        try:
            rows = Path(f"/proc/{pid}/status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # one of the guest's, which has ended
        status = dict(row.split(":", 1) for row in rows if ":" in row)
        assert status["Uid"].split() == [str(uid)] * 4
        assert status["Gid"].split() == [str(uid)] * 4
        assert {int(status[f"Cap{name}"], 16) for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
        assert status["NoNewPrivs"].strip() == "1"
    for kind in ("mnt", "pid", "net", "ipc", "uts"):
        assert link_of(lab.pid(), kind) != link_of(os.getpid(), kind)


def test_root_of_the_guest_finds_no_file_of_the_host(lab: Lab) -> None:
    """User Mode Linux has a file system that shows the host's files, as far as its process sees them."""
    if lab.made["engine"] != "uml":
        pytest.skip("only the kernel of User Mode Linux has it")
    secret, public = lab.state_dir / "canary-of-root", lab.state_dir.parent / "canary-of-all"
    places = (
        str(secret),
        str(public),
        "/etc/passwd",
        "/root",
        "/home",
        "/proc/1",
        "/run",
        "/dev/net/tun",
        str(lab.state_dir / "ssh_key"),
    )
    secret.write_text("canary")
    secret.chmod(0o600)
    public.write_text("canary")
    public.chmod(0o644)
    lab.guest("mkdir -p /run/host && mount -t hostfs none /run/host")
    try:
        for place in places:
            assert os.path.exists(place) or place == "/dev/net/tun"
            assert lab.guest(f"ls -d /run/host{place} 2>/dev/null || echo none") == "none\n", place
        assert (
            lab.guest("grep -rls --exclude-dir=vm1 --exclude-dir=dev --exclude='*.img' canary /run/host || echo none")
            == "none\n"
        )
        assert lab.guest("touch /run/host/x /run/host/var/lib/x 2>/dev/null || echo refused") == "refused\n"
    finally:
        lab.guest("umount /run/host && rmdir /run/host")
        secret.unlink()
        public.unlink()


def test_another_user_of_the_host_reaches_nothing_of_a_machine(lab: Lab) -> None:
    place = lab.state_dir / "vm1"
    paths = [str(path) for path in place.rglob("*")]
    assert {str(place / name) for name in ("disk", "console.log")} <= set(paths)
    with hostile.attacker() as mallory:
        for path in [str(place), *paths]:
            assert mallory.run(["ls", path]).returncode != 0, path
            assert mallory.run(["cat", path]).returncode != 0, path
        for name in ("root", "cwd", "fd/1", "mem"):
            assert mallory.run(["cat", f"/proc/{lab.pid()}/{name}"]).returncode != 0
        assert mallory.run(["kill", "-TERM", str(lab.pid())]).returncode != 0


def test_another_user_of_the_host_cannot_take_the_link_of_a_stopped_machine(lab: Lab) -> None:
    lab.vm(state="stopped")
    taps = [row["ifname"] for row in json.loads(run("ip", "-json", "link", "show", "master", BRIDGE)) if row]
    assert len(taps) == 1
    device = Path("/dev/net/tun")
    mode = device.stat().st_mode
    device.chmod(0o666)  # as udev has it
    try:
        with hostile.attacker() as mallory:
            done = mallory.run(["/usr/bin/python3", "-c", TAKE, taps[0]])
    finally:
        device.chmod(mode)
        lab.vm()
    assert "not permitted" in done.stderr, done


# As any program may that opens /dev/net/tun, which everybody can.
TAKE = """
import fcntl, struct, sys
tun = open("/dev/net/tun", "r+b", buffering=0)
fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", sys.argv[1].encode(), 0x1002))
print("taken")
"""


def test_the_disk_of_binaries_is_mounted_with_links_resolved(lab: Lab) -> None:
    assert lab.guest("/opt/ballast/bin/alias") == "from the disk\n"
    assert lab.guest("test -L /opt/ballast/bin/alias || echo a file") == "a file\n"
    assert lab.guest("touch /opt/ballast/bin/x 2>&1 || true").strip().endswith("Read-only file system")


def test_only_its_owner_reads_the_key(lab: Lab) -> None:
    assert (lab.state_dir / "ssh_key").stat().st_mode & 0o777 == 0o600


def test_ssh_takes_the_key_that_was_made_here_and_no_other(lab: Lab, tmp_path: Path) -> None:
    public = (lab.state_dir / "vm1/host_key.pub").read_text().split()[:2]
    assert lab.guest("cat /etc/ssh/ssh_host_ed25519_key.pub").split()[:2] == public
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other"))
    known = lab.state_dir / "known_hosts"
    assert known.stat().st_mode & 0o777 == 0o600
    before = known.read_text()
    known.write_text(before.replace(public[1], (tmp_path / "other.pub").read_text().split()[1]))
    try:
        with pytest.raises(subprocess.CalledProcessError):
            lab.guest("true")
    finally:
        known.write_text(before)
    private = (lab.state_dir / "vm1/host_key").read_text().splitlines()[1]
    assert private not in run("ps", "axwwo", "args")
    assert "ssh_host" not in lab.guest("cat /proc/cmdline")


def test_limits_of_a_slice_of_systemd_change_while_it_runs(lab: Lab) -> None:
    engines = ["tar", "-C", str(ROOT / "plugins"), "-cz", "--exclude=__pycache__"]
    packed = subprocess.run(
        [*engines, "module_utils/_core", "module_utils/_balloon"], check=True, stdout=subprocess.PIPE, timeout=60
    )
    lab.guest("mkdir /run/engines && tar -C /run/engines -xz", stdin=packed.stdout)
    script = (ROOT / "tests/integration/slices_in_vm.py").read_bytes()
    assert lab.guest("PYTHONPATH=/run/engines python3 -", stdin=script) == "all held\n"


def test_the_service_proxy_is_confined_by_systemd_and_programs_the_machine(lab: Lab, tmp_path: Path) -> None:
    """Its API server is a test's, at the other end of a tunnel."""
    ssh = ["ssh", "-F", "none", "-i", lab.made["ssh_key"], *shlex.split(lab.made["vms"][0]["ssh_arguments"])]
    with ExitStack() as undo:
        api = undo.enter_context(followed(tmp_path))
        api.put("Node", node_of(ADDRESS))
        api.put("Service", web("a"))
        api.put("EndpointSlice", endpoints("a", "10.1.2.3"))
        write_config(tmp_path)
        tunnel = [*ssh, "-N", "-R", f"127.0.0.1:{PORT}:127.0.0.1:{PORT}", f"root@{ADDRESS}"]
        process = undo.enter_context(subprocess.Popen(tunnel, stdin=subprocess.DEVNULL))
        undo.callback(process.kill)
        for name in ("kubeconfig", "ca.crt"):
            lab.guest(
                f"mkdir -p /etc/ballast-trial; umask 077; cat >/etc/ballast-trial/{name}",
                stdin=(tmp_path / name).read_bytes(),
            )
        config = {"clientConnection": {"kubeconfig": "/etc/ballast-trial/kubeconfig"}, "hostnameOverride": NODE_NAME}
        made = _service_proxy(lab, ssh, config={**config, "clusterCIDR": "10.1.0.0/16"})
        assert made["changed"]
        assert not _service_proxy(lab, ssh, config={**config, "clusterCIDR": "10.1.0.0/16"})["changed"]
        assert eventually(lambda: "10.1.2.3" in lab.guest("nft list ruleset"), seconds=60), lab.guest(
            f"tail {made['log']}"
        )
        own = lab.guest(f"grep -E 'CapPrm|CapEff|NoNewPrivs' /proc/{made['pid']}/status").split()
        assert own[1::2] == ["0000000000001000", "0000000000001000", "1"]
        assert lab.guest(f"stat -c %U /proc/{made['pid']}") == "ballast-service-proxy\n"
        lab.guest("systemctl restart ballast-service-proxy")
        assert "10.1.2.3" in lab.guest("nft list ruleset")
        assert _service_proxy(lab, ssh, state="absent")["changed"]
        assert "10.1.2.3" not in lab.guest("nft list ruleset")
        assert "ballast-service-proxy" not in lab.guest("getent passwd; getent group")


def _service_proxy(lab: Lab, ssh: list[str], **options: object) -> dict[str, Any]:
    variables = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": lab.made["ssh_key"],
        "ansible_ssh_common_args": shlex.join(ssh[1:]),
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    argv = [str(ROOT / ".venv/bin/ansible"), "-i", f"{ADDRESS},", "all", "-m", "ballast.kube.service_proxy"]
    argv += ["-a", json.dumps(options), "-e", json.dumps(variables)]
    environment = {
        **os.environ,
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.minimal",
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "true",
    }
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert "=> {" in done.stdout, done.stdout + done.stderr
    result: dict[str, Any] = json.JSONDecoder().raw_decode(done.stdout.partition("=> ")[2])[0]
    assert done.returncode == 0, done.stdout
    return result


def test_data_and_identity_outlast_stop_and_start(lab: Lab) -> None:
    lab.guest("echo kept >/root/kept")
    identity = lab.guest("cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub")
    stopped = lab.vm(state="stopped")
    assert [row["running"] for row in stopped["vms"]] == [False]
    assert lab.vm(state="stopped")["steps"] == []
    assert lab.vm()["vms"][0]["running"]
    assert lab.guest("cat /root/kept") == "kept\n"
    assert lab.guest("cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub") == identity


def test_a_machine_that_dies_while_it_boots_is_told_with_its_console(lab: Lab) -> None:
    other = f"{STATE_DIR}-2"
    vms = [{"name": "vm9", "address": "10.97.251.109/24", "memory_mib": 256}]
    try:
        lab.vm(state="stopped", state_dir=other, vms=vms)
        Path(other, "vm9", "disk").write_bytes(b"not a file system" * 4096)
        failed = lab.vm(fails=True, state_dir=other, vms=vms)
        assert failed["id"] == "vm-died"
        assert "Unable to mount root" in failed["msg"]
    finally:
        ansible("lab_vm", state="absent", state_dir=other)
    assert not Path(other).exists()


def test_check_mode_removes_nothing_and_absent_leaves_nothing(lab: Lab) -> None:
    planned = ansible("lab_vm", "--check", state="absent", state_dir=str(lab.state_dir))
    assert planned["changed"]
    assert lab.guest("echo here") == "here\n"
    ansible("lab_vm", state="absent", state_dir=str(lab.state_dir))
    assert not lab.state_dir.exists()
    assert not lab.state_dir.parent.exists() or list(lab.state_dir.parent.iterdir()), "of other tests at work"
    assert str(lab.state_dir) not in run("ps", "-eo", "args")
    links = json.loads(run("ip", "-json", "link", "show", "master", BRIDGE) or "[]")
    assert [link for link in links if link] == []
    assert not ansible("lab_vm", state="absent", state_dir=str(lab.state_dir))["changed"]
