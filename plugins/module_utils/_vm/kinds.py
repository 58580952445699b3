# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kinds of resource that a virtual machine is made of: its link, its disk, its process; and the key to log in with."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Optional

from .._core.errors import last_lines
from .._core.host import Host
from .._core.kinds import fields
from .._core.plan import ABSENT, Value
from .._core.processes import commands, threads
from .engines import ENGINES, KEY_PLACEHOLDER, Engine
from .image import manifest_of
from .messages import MESSAGES

_SECONDS = 30  # for a command that only talks to this machine's kernel
_TERM_SECONDS = 3  # for a machine that is told to end at once
_EXEC_SECONDS = 30  # until a process that was started has become the machine
_PROGRAMS = {engine.program for engine in ENGINES.values()}


class SshKeyKind:
    """`{type, owner}`: a key pair, the private part readable by its owner alone, the user of that number (and by root)."""

    def read(self, host: Host, target: str) -> Value:
        private = host.stat(target)
        if private is None or private.mode & 0o077 or not host.read(f"{target}.pub"):
            return ABSENT
        return {"type": "ed25519", "owner": private.uid}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        if before == ABSENT:
            self.remove(host, target, before)  # half a pair, for which ssh-keygen would ask
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ballast", "-f", target]
            host.run(argv, timeout=_SECONDS)
        found = host.stat(target)
        owner = fields(after)["owner"]
        if found is not None and found.uid != owner:
            host.run(["chown", str(owner), target], timeout=_SECONDS)

    def remove(self, host: Host, target: str, before: Value) -> None:
        host.remove(target)
        host.remove(f"{target}.pub")


class TapKind:
    """`{bridge}`: a persistent tap device that is up, on a bridge."""

    def read(self, host: Host, target: str) -> Value:
        found = host.run(["ip", "-json", "link", "show", "dev", target], timeout=_SECONDS, check=False)
        if found.status != 0:
            return ABSENT
        link = json.loads(found.stdout)[0]
        return {"bridge": link.get("master", "") if "UP" in link["flags"] else ""}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        if before == ABSENT:
            host.run(["ip", "tuntap", "add", target, "mode", "tap"], timeout=_SECONDS)
        bridge = str(fields(after)["bridge"])
        host.run(["ip", "link", "set", target, "master", bridge, "up"], timeout=_SECONDS)

    def remove(self, host: Host, target: str, before: Value) -> None:
        host.run(["ip", "link", "del", target], timeout=_SECONDS)


class DiskKind:
    """`{image, format}`: a disk that holds what differs from an image, `cow` of User Mode Linux or `qcow2`.

    A COW file is made by the kernel that uses it, on its first start.
    """

    def __init__(self, digest: Callable[[str], str]) -> None:
        self._digest = digest

    def read(self, host: Host, target: str) -> Value:
        data = host.read(f"{target}.json")
        value: Value = json.loads(data) if data else ABSENT
        return value

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        wanted = fields(after)
        image = str(wanted["image"])
        manifest = manifest_of(host, os.path.dirname(image))
        if manifest is None or os.path.basename(image) not in manifest["files"]:
            raise MESSAGES.error("vm-image-missing", path=image)
        built = manifest["files"][os.path.basename(image)]["digest"]
        found = self._digest(image)
        if found != built:
            raise MESSAGES.error("vm-image-corrupt", found=f"{found}, built as {built}", path=image)
        host.remove(target)
        if wanted["format"] == "qcow2":
            argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", image, target]
            host.run(argv, timeout=_SECONDS)
        host.write(f"{target}.json", json.dumps(after, sort_keys=True).encode())

    def remove(self, host: Host, target: str, before: Value) -> None:
        host.remove(target)
        host.remove(f"{target}.json")


class MachineKind:
    """`{engine, address, command, running}`. The target is the machine's directory, by which its process is known."""

    def read(self, host: Host, target: str) -> Value:
        data = host.read(_definition(target))
        if data is None:
            return ABSENT
        definition: dict[str, Value] = json.loads(data)
        return {**definition, "running": process_of(host, target) is not None}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        wanted = fields(after)
        definition = {name: part for name, part in wanted.items() if name != "running"}
        if before != ABSENT:
            stop(host, target, fields(before))
        end(host, target)
        host.write(_definition(target), json.dumps(definition, sort_keys=True).encode())
        if not wanted["running"]:
            return
        key = (host.read(f"{ssh_key_path(os.path.dirname(target))}.pub") or b"").decode().split()[1]
        command = wanted["command"]
        words = [str(word).replace(KEY_PLACEHOLDER, key) for word in command] if isinstance(command, list) else []
        host.make_directory(os.path.join(target, "uml"), mode=0o700)
        pid = host.spawn([*_bound(host, ENGINES[str(wanted["engine"])]), *words], log=console_path(target))
        # For a moment it shows the command that binds it; whoever looked for the machine then would find none.
        _wait_until(host, lambda: process_of(host, target) == pid or has_ended(host, pid), seconds=_EXEC_SECONDS)

    def remove(self, host: Host, target: str, before: Value) -> None:
        """At once: the disk is removed next, so there is nothing to write back."""
        end(host, target)
        host.remove(_definition(target))


def _bound(host: Host, engine: Engine) -> list[str]:
    """What binds a machine that has one processor anyway to one of ours: that which the fewest such machines have.

    Its kernel and the helpers in which the guest's programs run take turns, and never work at once. On two processors
    each turn, and so each system call of the guest, would wake up the other one: four times the cost [measured].
    """
    allowed = _processors(host, "self") if engine.max_cpus == 1 else []
    if not allowed:
        return []
    held = Counter(cpu for pid in _machines(host) for cpu in _processors(host, str(pid))[:1])
    return ["taskset", "--cpu-list", str(min(allowed, key=lambda cpu: (held[cpu], cpu)))]


def _processors(host: Host, pid: str) -> list[int]:
    """Those that a process may run on."""
    # proc_pid_status(5): `Cpus_allowed_list: 0-3,6`.
    rows = (host.read(f"/proc/{pid}/status") or b"").decode(errors="replace").splitlines()
    text = next((row.partition(":")[2].strip() for row in rows if row.startswith("Cpus_allowed_list:")), "")
    bounds = [part.partition("-") for part in text.split(",") if part]
    return [cpu for first, _dash, last in bounds for cpu in range(int(first), int(last or first) + 1)]


def known_hosts_path(directory: str) -> str:
    return os.path.join(directory, "known_hosts")


def ssh_key_path(state_dir: str) -> str:
    return os.path.join(state_dir, "ssh_key")


def console_path(directory: str) -> str:
    return os.path.join(directory, "console.log")


def definition_of(host: Host, directory: str) -> Optional[dict[str, Value]]:
    data = host.read(_definition(directory))
    return json.loads(data) if data is not None else None


def _definition(directory: str) -> str:
    return os.path.join(directory, "vm.json")


def process_of(host: Host, directory: str) -> Optional[int]:
    """The pid of the machine that has its files in `directory`: the one of its processes that leads their session."""
    return next((pid for pid in processes_of(host, directory) if leads_session(host, pid)), None)


def processes_of(host: Host, directory: str) -> list[int]:
    """Every process of an engine whose command names the directory. User Mode Linux has many that show one command:
    its own helpers, and one for each process of the guest."""
    marks = {f"uml_dir={directory}/uml", f"unix:{directory}/qmp.sock,server=on,wait=off"}
    return [pid for pid, words in _processes(host) if marks.intersection(words)]


def _machines(host: Host) -> list[int]:
    """The machines of User Mode Linux on this host, of whatever lab."""
    program = ENGINES["uml"].program
    return [
        pid for pid, words in _processes(host) if os.path.basename(words[0]) == program and leads_session(host, pid)
    ]


def _processes(host: Host) -> Iterator[tuple[int, list[str]]]:
    """Those of an engine, with the words of their commands."""
    return ((pid, words) for pid, words in commands(host) if os.path.basename(words[0]) in _PROGRAMS)


def leads_session(host: Host, pid: int) -> bool:
    return any(thread.session == pid for thread in threads(host, pid))


def has_ended(host: Host, pid: int) -> bool:
    """Whether no thread of it runs any more, and so nothing that it held, a tap or the lock of a disk, is held still.

    It may be there yet, since nobody has reaped it; and it shows no command long before it has let go of its files.
    """
    return all(thread.state in "ZX" for thread in threads(host, pid))


def stop(host: Host, directory: str, definition: Mapping[str, Value]) -> None:
    """Ask the machine to power off; end it when it does not."""
    engine = ENGINES[str(definition["engine"])]
    pid = process_of(host, directory)
    if pid is not None and ask_to_power_off(host, directory, definition):
        _wait_for_end(host, pid, seconds=engine.stop_seconds)
    end(host, directory)


def ask_to_power_off(host: Host, directory: str, definition: Mapping[str, Value]) -> bool:
    """Whether the guest took the order."""
    order = ["systemctl", "start", "--no-block", "--job-mode=replace-irreversibly", "poweroff.target"]
    engine = ENGINES[str(definition["engine"])]
    argv = ssh_command(directory, str(definition["address"]), order, seconds=engine.login_seconds)
    return host.run(argv, timeout=2 * engine.login_seconds, check=False).status == 0


def end(host: Host, directory: str) -> None:
    """End the processes of this machine, and only those; what they held is free then."""
    pid = process_of(host, directory)
    if pid is not None:
        host.kill(pid, signal.SIGTERM)
        _wait_for_end(host, pid, seconds=_TERM_SECONDS)
    # What did not end in time, and the helpers of a kernel that somebody killed, which outlive it with its files open.
    left = processes_of(host, directory)
    for each in left:
        host.kill(each, signal.SIGKILL)
    for each in left:
        _wait_for_end(host, each, seconds=_TERM_SECONDS)


def _wait_for_end(host: Host, pid: int, *, seconds: float) -> None:
    _wait_until(host, lambda: has_ended(host, pid), seconds=seconds)


def _wait_until(host: Host, done: Callable[[], bool], *, seconds: float) -> None:
    deadline = host.monotonic() + seconds
    while not done() and host.monotonic() < deadline:
        host.sleep(0.05)


def ssh_options(directory: str) -> list[str]:
    """For ssh(1), also as it is called by Ansible."""
    return [
        *("-o", "StrictHostKeyChecking=accept-new"),  # the host key is made on the first start, on our own bridge
        *("-o", f"UserKnownHostsFile={known_hosts_path(directory)}"),
        *("-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR"),
    ]


def ssh_command(directory: str, address: str, order: Sequence[str], *, seconds: int) -> list[str]:
    """`order` consists of plain words: a shell in the guest joins and splits them again."""
    key = ssh_key_path(os.path.dirname(directory))
    limits = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={seconds}"]
    return ["ssh", "-F", "none", "-i", key, *ssh_options(directory), *limits, f"root@{address}", *order]


def console_tail(host: Host, directory: str) -> str:
    """The last lines of the console, and before them why the kernel gave up, which a long trace follows."""
    text = (host.read(console_path(directory)) or b"").decode(errors="replace")
    lines = "".join(letter for letter in text if letter.isprintable() or letter == "\n").splitlines()
    panics = [line for line in lines if "Kernel panic" in line]
    return "\n".join([*panics[-1:], last_lines("\n".join(lines))])
