# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines for the benchmark of a fleet: each with namespaces, a root file system and an sshd of its own.

    namespaces   network, mounts, processes, cgroups, name
    root         an overlay over this machine's, whose upper layer is in memory
    runit        /etc/service: sshd, a real containerd, a real kube-proxy, and a stand-in for the kubelet, which sleeps

kube-proxy is that of a Node on a real control plane. A kubelet for each of fifty hosts is more than two cores bear; what a
module reads of one is its command line and its files, and these are there.
"""

from __future__ import annotations

import json
import os
import pwd
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integration import journal
from tests.integration.debian import unpacked
from tests.integration.plane_lab import Plane

BRIDGE = "ballast-fleet"
_NETWORK = "10.97.251"
_HOST_SCRIPT = Path(__file__).with_name("fleet") / "host.sh"
_START_SECONDS = 60
_PROXY_SECONDS = 180  # fifty of them at once, on two cores
# What Debian's sshd is linked with, and no other program here needs.
_SSHD_PACKAGES = ("openssh-server", "libwrap0")
_CONTAINERD = """version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
imports = ["/etc/containerd/conf.d/*.toml"]
disabled_plugins = ["io.containerd.nri.v1.nri"]

[grpc]
address = "/run/containerd/containerd.sock"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "native"

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
"""
_SSHD = """HostKey /etc/ssh/fleet_host_key
AuthorizedKeysFile /etc/ssh/fleet_authorized_keys
AuthenticationMethods publickey
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
PidFile none
"""


@dataclass(frozen=True)
class FleetHost:
    name: str
    address: str
    place: Path

    @property
    def upper(self) -> Path:
        """What lies here is what the host has of its own."""
        return self.place / "upper"


@dataclass(frozen=True)
class Fleet:
    place: Path
    hosts: tuple[FleetHost, ...]

    @property
    def key(self) -> Path:
        return self.place / "id_ed25519"

    def inventory(self, path: Path, masters: Path) -> None:
        """Written to `path`; `masters` is the directory of ssh's connections that are kept."""
        known = (
            f"-o UserKnownHostsFile={self.place}/known_hosts -o StrictHostKeyChecking=yes -o ControlPath={masters}/%h"
        )
        common = {
            "ansible_user": "root",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_private_key_file": str(self.key),
            "ansible_ssh_common_args": known,
        }
        hosts = {host.name: {"ansible_host": host.address} for host in self.hosts}
        path.write_text(json.dumps({"all": {"vars": common, "hosts": hosts}}, indent=1), encoding="utf-8")


@contextmanager
def fleet(count: int, plane: Plane, bin_dir: str) -> Iterator[Fleet]:
    """So many hosts, each with its kube-proxy in order, and one more network of this machine; all gone at the end."""
    sshd = _sshd()
    with ExitStack() as made:
        # Each containerd and kube-proxy watches files, and all are the same user's.
        made.enter_context(journal.at_least("fs.inotify.max_user_instances", 64 * count))
        place = Path("/run/ballast-fleet")
        made.enter_context(journal.directory(str(place)))
        made.enter_context(journal.mount(str(place), "mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", str(place)))
        made.enter_context(journal.link(BRIDGE, "type", "bridge"))
        _run("ip", "address", "add", f"{_NETWORK}.1/24", "dev", BRIDGE)
        _run("ip", "link", "set", BRIDGE, "up")
        hosts = tuple(
            FleetHost(f"f{number}", f"{_NETWORK}.{number + 9}", place / f"f{number}") for number in range(1, count + 1)
        )
        found = Fleet(place, hosts)
        _make_keys(found)
        _make_nodes(found, plane)
        for host in hosts:
            _furnish(host, found, sshd, bin_dir, plane)
            made.enter_context(_running(host))
        _wait_until_in_order(hosts)
        yield found


def _sshd() -> str:
    """The command that runs Debian's sshd where it is unpacked: installed, it would be a service of this machine."""
    openssh, wrap = (unpacked(name) for name in _SSHD_PACKAGES)
    (library,) = wrap.glob("*/lib/*/libwrap.so.0")
    return f"env LD_LIBRARY_PATH={shlex.quote(str(library.parent))} {shlex.quote(str(openssh / 'usr/sbin/sshd'))}"


def _make_keys(found: Fleet) -> None:
    for path in (found.key, found.place / "host_key"):
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ballast-fleet", "-f", str(path))
    kind, key, _comment = (found.place / "host_key.pub").read_text(encoding="ascii").split()
    lines = [f"{host.address} {kind} {key}\n" for host in found.hosts]
    (found.place / "known_hosts").write_text("".join(lines), encoding="ascii")


def _make_nodes(found: Fleet, plane: Plane) -> None:
    """For kube-proxy, which asks for its Node and the address that it tells."""
    for host in found.hosts:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": host.name}}
        answer = plane.ask("/api/v1/nodes", "POST", body)
        assert answer.ok, answer.body
        status = {"status": {"addresses": [{"type": "InternalIP", "address": host.address}]}}
        answer = plane.ask(f"/api/v1/nodes/{host.name}/status", "PATCH", status, "application/merge-patch+json")
        assert answer.ok, answer.body


def _furnish(host: FleetHost, found: Fleet, sshd: str, bin_dir: str, plane: Plane) -> None:
    """The files that a node has before any of our modules comes."""
    for name in ("upper", "work", "root"):
        (host.place / name).mkdir(parents=True)
    files = {
        "etc/passwd": Path("/etc/passwd").read_text(encoding="utf-8")
        + "sshd:x:64999:65534::/run/sshd:/usr/sbin/nologin\n",
        # What this machine's user has a shell do at each login is no cost of a fleet.
        f"{pwd.getpwuid(0).pw_dir.lstrip('/')}/.bashrc": "",
        "etc/ssh/fleet_sshd_config": _SSHD,
        "etc/ssh/fleet_host_key": (found.place / "host_key").read_text(encoding="ascii"),
        "etc/ssh/fleet_authorized_keys": found.key.with_suffix(".pub").read_text(encoding="ascii"),
        "etc/containerd/config.toml": _CONTAINERD,
        "etc/kubernetes/kube-proxy.kubeconfig": Path(plane.kubeconfig).read_text(encoding="utf-8"),
        "var/lib/kube-proxy/config.conf": json.dumps(_kube_proxy(host), indent=2) + "\n",
        "var/lib/kubelet/config.yaml": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
    }
    for path, text in files.items():
        _write(host, path, text)
    (host.upper / "etc/ssh/fleet_host_key").chmod(0o600)
    for path in ("etc/containerd/conf.d", "etc/kubernetes/kubelet.conf.d", "usr/local/bin"):
        (host.upper / path).mkdir(parents=True)
    # In the place of a kubelet: a program of that name with its command line. A script would be its shell to who looks at processes.
    shutil.copy("/bin/bash", host.upper / "usr/local/bin/kubelet")
    services = {
        "sshd": f"{sshd} -D -e -f /etc/ssh/fleet_sshd_config",
        "containerd": f"env PATH={bin_dir}:$PATH {bin_dir}/containerd --config /etc/containerd/config.toml",
        "kube-proxy": f"{bin_dir}/kube-proxy --config=/var/lib/kube-proxy/config.conf",
        "kubelet": "/usr/local/bin/kubelet -c 'while :; do sleep 86400; done' kubelet --config=/var/lib/kubelet/config.yaml "
        "--config-dir=/etc/kubernetes/kubelet.conf.d --healthz-port=0",
    }
    for name, command in services.items():
        _write(host, f"etc/service/{name}/run", f"#!/bin/sh\nexec {command} >>/var/log/{name}.log 2>&1\n", 0o755)
        # runit's `sv` is an init script too, by this name: what `service` of Ansible looks for.
        link = host.upper / "etc/init.d" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to("/usr/bin/sv")


def _kube_proxy(host: FleetHost) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": "/etc/kubernetes/kube-proxy.kubeconfig"},
        "conntrack": {"maxPerCore": 0},  # nf_conntrack_max belongs to the whole machine
        "healthzBindAddress": "127.0.0.1:10256",
        "hostnameOverride": host.name,
        "metricsBindAddress": "127.0.0.1:10249",
        "mode": "nftables",
        # Fifty that write everything anew twice a minute would be most of the load.
        "nftables": {"syncPeriod": "1h"},
    }


def _write(host: FleetHost, path: str, text: str, mode: int = 0o644) -> None:
    target = host.upper / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    target.chmod(mode)


@contextmanager
def _running(host: FleetHost) -> Iterator[None]:
    """Its network and its processes. With the network namespace ends all that runs there."""
    namespace, link = f"ballast-fleet-{host.name}", f"bal-{host.name}"
    with ExitStack() as made:
        cgroup = made.enter_context(journal.cgroup(namespace))
        made.enter_context(journal.network_namespace(namespace))
        _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _run("ip", "link", "set", link, "master", BRIDGE, "up")
        inside = ("ip", "-n", namespace)
        _run(*inside, "link", "set", "lo", "up")
        _run(*inside, "address", "add", f"{host.address}/24", "dev", "eth0")
        _run(*inside, "link", "set", "eth0", "up")
        _run(*inside, "route", "add", "default", "via", f"{_NETWORK}.1")
        own = ["unshare", "--mount", "--uts", "--ipc", "--cgroup", "--pid", "--fork", "--kill-child=KILL"]
        argv = ["nsenter", f"--net=/run/netns/{namespace}", *own, "sh", str(_HOST_SCRIPT), str(host.place), host.name]
        with (host.place / "console").open("wb") as console:
            # The shell goes into the cgroups, so that they are the root of those that it sees.
            moved = [f"echo $$ > {shlex.quote(path)}/cgroup.procs" for path in cgroup]
            started = subprocess.Popen(
                ["sh", "-ec", "\n".join([*moved, f"exec {shlex.join(argv)}"])],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            )
        try:
            _wait_for_ssh(host, started)
            yield
        finally:
            started.kill()
            started.wait(timeout=30)


def _wait_for_ssh(host: FleetHost, started: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with socket.create_connection((host.address, 22), timeout=1):
                return
        except OSError:
            said = (host.place / "console").read_text(encoding="utf-8", errors="replace")
            assert started.poll() is None, f"{host.name} has ended: {said}"
            assert time.monotonic() < deadline, f"{host.name}: no sshd: {said}"
            time.sleep(0.1)


def _wait_until_in_order(hosts: Sequence[FleetHost]) -> None:
    """Every kube-proxy has written its rules once."""
    deadline = time.monotonic() + _PROXY_SECONDS
    for host in hosts:
        argv = ["nsenter", f"--net=/run/netns/ballast-fleet-{host.name}", "nft", "list", "table", "ip", "kube-proxy"]
        while subprocess.run(argv, capture_output=True, check=False, timeout=30).returncode != 0:
            log = host.upper / "var/log/kube-proxy.log"
            said = log.read_text(encoding="utf-8", errors="replace")[-2000:] if log.exists() else "nothing"
            assert time.monotonic() < deadline, f"{host.name}: kube-proxy writes no rules: {said}"
            time.sleep(0.5)


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stdout}{done.stderr}"
