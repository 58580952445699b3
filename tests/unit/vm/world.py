# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine in memory on which virtual machines are made: its taps, keys, processes and guests answer."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Optional, Union

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Plan
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._vm.engines import ENGINES
from ansible_collections.ballast.kube.plugins.module_utils._vm.guest import PROBE_MARK
from ansible_collections.ballast.kube.plugins.module_utils._vm.model import VmRequest
from ansible_collections.ballast.kube.plugins.module_utils._vm.probe import kernel_of
from ansible_collections.ballast.kube.plugins.module_utils._vm.recipes import EPOCH
from ansible_collections.ballast.kube.plugins.module_utils._vm.vm import VmEngine
from tests.unit.fakes import Call, FakeHost, Process

STATE = "/var/lib/ballast/lab/vms"
CACHE = "/var/cache/ballast/vm"
IMAGE = f"{CACHE}/debian-13/images/aa/root.img"
DIGEST = "sha256-blocks:1"


def vm(number: int, **other: Any) -> dict[str, Any]:
    return {
        "name": f"vm{number}",
        "address": f"10.97.0.10{number}/24",
        "gateway": "10.97.0.1",
        "memory_mib": 512,
        "cpus": 1,
        **other,
    }


def params(*vms: dict[str, Any], **other: Any) -> dict[str, Any]:
    return {
        "state": "present",
        "state_dir": STATE,
        "engine": "uml",
        "uml_kernel": "debian",
        "image": IMAGE,
        "bridge": "ballast-lab",
        "disks": [],
        "vms": list(vms),
        "key_owner": 0,
        "cache_dir": CACHE,
        **other,
    }


class World:
    """A machine with a bridge, an image, and every engine's programs; its guests answer ssh and power off."""

    def __init__(self, *programs: str) -> None:
        self.taps: dict[str, str] = {}
        self.orders: list[dict[str, Any]] = []  # how each machine was confined
        self.answers = True
        self.keys = 0
        self.boots = {"kvm": False, "uml": True, "tcg": True}
        self.digest = DIGEST
        self.host = host = FakeHost(
            files={
                "/proc/self/status": "Name:\tpython3\nCpus_allowed_list:\t0-1,4\n",
                "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 8388608 kB\n",
                "/proc/sys/kernel/random/boot_id": "b-1\n",
                "/proc/sys/kernel/osrelease": "6.18\n",
                "/dev/net/tun": "",
                "/dev/kvm": "",
                "/sys/class/net/ballast-lab/bridge/bridge_id": "",
            }
        )
        host.on("ip", "-json", "link", "show", answer=self._show, reads=True)
        host.on("ip", answer=self._change)
        host.on("taskset")
        host.on("ssh-keygen", answer=self._keygen)
        host.on("ssh", answer=self._ssh, reads=lambda argv: argv[-1] == "true")
        for program in programs or ("linux.uml", "qemu-system-x86_64"):
            host.on(program, reads=True)
        host.on(sys.executable, answer=self._probe, reads=True)
        host.on(
            "ldd",
            answer="\tlinux-vdso.so.1 (0x00007f)\n\tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n\t/lib64/ld.so (0x00007f)\n",
            reads=True,
        )
        host.on("chown", answer=self.chown)
        host.on("chmod", answer=self._chmod)
        host.on("truncate", answer=lambda call: "")
        if not programs or "linux.uml" in programs:
            host.on("linux.uml", "--version", answer="6.1.176\n", reads=True)
        host.on("qemu-img", answer=lambda call: self._made(call.argv[-1]))
        host.on_spawn += [self._spawned, self.becomes]
        self._cached(os.path.dirname(IMAGE), "root.img")
        for name in ("uml", "tcg"):
            kernel = (
                kernel_of(host, ENGINES[name], cache_dir=CACHE) if host.which("linux.uml") or name != "uml" else None
            )
            if kernel is not None:
                place = os.path.dirname(kernel.modules)
                self._cached(place, "modules.img", "vmlinuz", "initrd")
                recipe = ENGINES[name].kernel
                packages = ["busybox-static", "linux-image-cloud-amd64"] if recipe == "kernel-cloud" else []
                current = {"key": os.path.basename(place), "recipe": recipe, "packages": packages}
                text = json.dumps({**current, "source": "", "mirror": ""})
                host.given_ours(f"{CACHE}/{recipe}", "image")
                host.given_ours(f"{CACHE}/{recipe}/images")
                host.given(f"{CACHE}/{recipe}/images/current.json", text)
        self.engine = VmEngine(digest=lambda path: self.digest)

    def plan(self, asked: dict[str, Any]) -> Plan:
        desired = VmRequest.from_params(asked)
        return self.engine.plan(desired, self.engine.observe(Context(desired, self.host)))

    def apply(self, asked: dict[str, Any]) -> Plan:
        desired, plan = VmRequest.from_params(asked), self.plan(asked)
        progress = Progress(NullSink(), feature="vm")
        self.engine.apply(plan, Context(desired, self.host, progress))
        self.engine.verify(Context(desired, self.host, progress))
        return plan

    def report(self) -> dict[str, Any]:
        return self.engine.report(Context(VmRequest.to_read({"state_dir": STATE}), self.host))

    def running(self) -> list[str]:
        return [row["name"] for row in self.report()["vms"] if row["running"]]

    def _cached(self, place: str, *names: str) -> None:
        for name in names:
            self.host.given(f"{place}/{name}", "")
            self.host._nodes[f"{place}/{name}"].mtime = EPOCH
        files = {name: {"size": 0, "digest": DIGEST} for name in names}
        manifest = {"recipe": "r", "key": os.path.basename(place), "packages": [], "files": files, "seconds": 1}
        self.host.given(f"{place}/manifest.json", json.dumps(manifest))

    def _show(self, call: Call) -> Union[str, int]:
        link = call.argv[-1]
        if link not in self.taps:
            return 1
        return json.dumps([{"ifname": link, "flags": ["UP"], "master": self.taps[link]}])

    def _change(self, call: Call) -> Union[str, int]:
        verb, words = call.argv[2], call.argv
        if words[1] == "tuntap":
            assert words[3] not in self.taps
            self.taps[words[3]] = ""
        elif verb == "set":
            self.taps[words[3]] = words[5]
        elif verb == "del":
            if words[3] not in self.taps:
                return 1
            del self.taps[words[3]]
        return ""

    def _keygen(self, call: Call) -> str:
        self.keys += 1
        name = "" if call.argv[-1].endswith("/ssh_key") else f"-{self.keys}"
        self.host.given(call.argv[-1], f"private{name}", mode=0o600)
        self.host.given(f"{call.argv[-1]}.pub", f"ssh-ed25519 AAAAkey{name} ballast\n")
        return ""

    def _made(self, path: str) -> str:
        self.host.given(path, "qcow2")
        return ""

    def _process(self, address: str) -> Optional[int]:
        found = [
            pid for pid, row in self.host.processes.items() if f"ballast.address={address}/24" in " ".join(row.argv)
        ]
        return found[0] if found else None

    def _ssh(self, call: Call) -> Union[str, int, Completed]:
        address = next(word for word in call.argv if word.startswith("root@"))[5:]
        pid = self._process(address)
        if pid is None or not self.answers:
            return Completed(argv=call.argv, status=255, stdout="", stderr="ssh: connect: Connection refused\n")
        if "poweroff.target" in call.argv:
            self.host.end_process(pid)
        return ""

    def chown(self, call: Call) -> str:
        self.host._nodes[call.argv[-1]].uid = int(call.argv[1].partition(":")[0])
        return ""

    def _chmod(self, call: Call) -> str:
        self.host._nodes[call.argv[-1]].mode = int(call.argv[1], 8)
        return ""

    def _probe(self, call: Call) -> str:
        argv = json.loads(call.argv[-1])["argv"]
        words = " ".join(argv)
        name = "uml" if argv[0] == "linux.uml" else "kvm" if "-accel kvm" in words else "tcg"
        if name != "uml" and "file.locking=off" not in words:  # as where a machine of User Mode Linux runs
            return 'qemu: Failed to get "consistent read" lock\n'
        return f"[ 1.0 ] {PROBE_MARK}\n" if self.boots[name] else "qemu: cannot\n"

    def given_threads(self, pid: int, *states: str, session: int) -> None:
        """What /proc shows of them, the first of which is the process itself."""
        for number, state in enumerate(states, start=pid):
            text = f"{number} (vm (odd) name) {state} 1 {pid} {session} 0 -1\n"
            self.host.given(f"/proc/{pid}/task/{number}/stat", text)

    def becomes(self, pid: int, process: Process) -> None:
        """taskset has bound the process, which has given up what it may and is the machine. On a real host the machine is a
        process that it started."""
        if process.argv[0] == "taskset":
            self.host.given(f"/proc/{pid}/status", f"Name:\tlinux.uml\nCpus_allowed_list:\t{process.argv[2]}\n")
        self.orders.append(json.loads(process.argv[-1]))
        process.argv, process.uid = tuple(self.orders[-1]["argv"]), self.orders[-1]["uid"]

    def _spawned(self, pid: int, process: Process) -> None:
        self.given_threads(pid, "S", session=pid)
