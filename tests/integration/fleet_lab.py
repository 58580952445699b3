# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet run on a lab whose nodes are both: the fleet, and the management cluster. `make fleet-demo`

    python -m tests.integration.fleet_lab LAB_DIR [MODE]

Workers reach the nodes by ssh to this machine, and by the become plugin `ballast.kube.instance` from there. For that an sshd listens on the
address of the lab's control plane, with keys of its own, until the block ends.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration import journal
from tests.integration.debian import unpacked
from tests.integration.lab import ROOT, Lab, Run

BIN = Path(sys.executable).parent
_START_SECONDS = 30
_RUN_SECONDS = 900
# What Debian's sshd is linked with, and no other program here needs.
_SSHD_PACKAGES = ("openssh-server", "libwrap0")
_CONFIG = """HostKey {place}/host_key
AuthorizedKeysFile {place}/key.pub
AuthenticationMethods publickey
ForceCommand exec nsenter --target {pid} --mount -- sh -c "$SSH_ORIGINAL_COMMAND"
ListenAddress {address}:{port}
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
UseDNS no
PidFile none
"""
# Its user is in a file that this sshd alone sees. Mount namespaces of instances are not to be seen from there: commands run in the machine's own.
_START = """
mount --make-rprivate / && mount --bind "$0/passwd" /etc/passwd && mount -t tmpfs -o mode=755 tmpfs /run/sshd || exit 125
exec "$@" -D -e -f "$0/sshd_config"
"""
_OTHER_MODE = {"nftables": "iptables", "iptables": "nftables", "ipvs": "nftables"}


@dataclass(frozen=True)
class Fleet:
    """The nodes of a lab as a fleet run takes them. `place` has inventory, key, known_hosts and the reports."""

    lab: Lab
    place: Path

    def command(self, **variables: Any) -> list[str]:
        given = {
            "fleet_playbook": "kube_proxy_migrate",
            "fleet_kubeconfig": f"{self.lab.directory}/admin.kubeconfig",
            "fleet_ssh_key": str(self.place / "key"),
            "fleet_known_hosts": str(self.place / "known_hosts"),
            "fleet_dir": str(self.place / "reports"),
            "kube_proxy_hosts": "all",
            "kube_proxy_confirm": True,
            **variables,
        }
        argv = [str(BIN / "ansible-playbook"), "ballast.kube.fleet_run", "-i", str(self.place / "hosts.json")]
        return [*argv, "-e", json.dumps(given)]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **journal.COLLECTION, "ANSIBLE_STDOUT_CALLBACK": "ballast.kube.progress", "NO_COLOR": "1"}

    def start(self, log: Path, **variables: Any) -> subprocess.Popen[str]:
        with log.open("w", encoding="utf-8") as output:
            return subprocess.Popen(
                self.command(**variables), cwd=ROOT, env=self.environment, stdout=output, stderr=output, text=True
            )

    def run(self, **variables: Any) -> Run:
        argv = self.command(**variables)
        done = subprocess.run(
            argv, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False
        )
        return Run(status=done.returncode, output=done.stdout + done.stderr)


@contextmanager
def fleet(lab: Lab, place: Path) -> Iterator[Fleet]:
    address = str(lab.record["control_plane"]["address"])
    for name in ("key", "host_key"):
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ballast-fleet", "-f", str(place / name))
    with _sshd(place, address) as port:
        kind, key, _comment = (place / "host_key.pub").read_text(encoding="ascii").split()
        (place / "known_hosts").write_text(f"[{address}]:{port} {kind} {key}\n", encoding="ascii")
        (place / "hosts.json").write_text(json.dumps(_inventory(lab, address, port)), encoding="utf-8")
        yield Fleet(lab, place)


def _inventory(lab: Lab, address: str, port: int) -> dict[str, Any]:
    """The lab's own, with its instances reached from elsewhere."""
    plugin = Path(lab.directory).parent / "fleet.ballast.yml"
    plugin.write_text(json.dumps({"plugin": "ballast.kube.lab", "lab_dir": lab.directory}), encoding="utf-8")
    argv = [str(BIN / "ansible-inventory"), "-i", str(plugin), "--list"]
    done = subprocess.run(
        argv, cwd=ROOT, env={**os.environ, **journal.COLLECTION}, capture_output=True, text=True, check=True
    )
    plugin.unlink()
    listed = json.loads(done.stdout)
    way = {
        "ansible_connection": "ssh",
        "ansible_host": address,
        "ansible_port": port,
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    hosts = {name: {**listed["_meta"]["hostvars"][name], **way} for name in listed["ballast_nodes"]["hosts"]}
    return {"all": {"hosts": hosts}}


@contextmanager
def _sshd(place: Path, address: str) -> Iterator[int]:
    """Its port. Installed, it would be a service of this machine."""
    openssh, wrap = (unpacked(name) for name in _SSHD_PACKAGES)
    (library,) = wrap.glob("*/lib/*/libwrap.so.0")
    port = _free_port(address)
    config = _CONFIG.format(place=place, address=address, port=port, pid=os.getpid())
    (place / "sshd_config").write_text(config, encoding="ascii")
    passwd = Path("/etc/passwd").read_text(encoding="utf-8")
    (place / "passwd").write_text(passwd + "sshd:x:64999:65534::/run/sshd:/usr/sbin/nologin\n", encoding="utf-8")
    with ExitStack() as made:
        if not os.path.isdir("/run/sshd"):
            made.enter_context(journal.directory("/run/sshd"))
            os.makedirs("/run/sshd", exist_ok=True)
        argv = ["unshare", "--mount", "sh", "-c", _START, str(place), str(openssh / "usr/sbin/sshd")]
        with (place / "sshd.log").open("wb") as log:
            environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(library.parent), "LC_ALL": "C.UTF-8"}
            started = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        try:
            _wait_for_port(address, port, started, place / "sshd.log")
            yield port
        finally:
            started.kill()
            started.wait(timeout=30)


def _free_port(address: str) -> int:
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind((address, 0))
        return int(server.getsockname()[1])


def _wait_for_port(address: str, port: int, started: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with socket.create_connection((address, port), timeout=1):
                return
        except OSError:
            said = log.read_text(encoding="utf-8", errors="replace")
            assert started.poll() is None, f"sshd has ended: {said}"
            assert time.monotonic() < deadline, f"no sshd: {said}"
            time.sleep(0.1)


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)


def load_image(lab: Lab, archive: Path) -> None:
    """Into each node of a lab that is up."""
    run = lab.playbook("lab_up", lab_archive=str(archive))
    assert run.status == 0, run.output


def main(arguments: list[str]) -> int:
    from tests.integration.test_execution_environment import CACHE, make

    lab = Lab(arguments[0], "")
    backend = str(lab.record["nodes"][0]["proxy_backend"])
    mode = arguments[1] if len(arguments) > 1 else _OTHER_MODE[backend]
    with tempfile.TemporaryDirectory(prefix="ballast-fleet-") as work:
        place = Path(work)
        load_image(lab, make(place / "image/ee.tar", CACHE))
        with fleet(lab, place) as nodes:
            for asked_for in (mode, backend):
                argv = nodes.command(kube_proxy_mode=asked_for, fleet_slices=2)
                print(f"$ {shlex.join(argv)}", flush=True)
                status = subprocess.run(argv, cwd=ROOT, env=nodes.environment, check=False).returncode
                if status:
                    return status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
