# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kinds of resource of a virtual machine: its keys, its link, its disk, its process."""

from __future__ import annotations

import io
import json
import os
import signal
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Optional

from .._core.engine.context import Context
from .._core.engine.kinds import fields
from .._core.engine.plan import ABSENT, Value
from .._core.engine.wait import wait_until
from .._core.host.host import LOG_LIMIT, Host, Process, ProcessId
from .._core.host.processes import (
    OWN_UIDS,
    has_ended,
    is_of,
    is_of_root,
    leads_session,
    list_processes,
    program,
    read_command,
)
from .._core.text.errors import last_lines
from .._core.text.json_text import parse_json
from .confine import confine
from .confinement import confinement_of
from .cow import cow_header
from .engines import ENGINES, KEY_PLACEHOLDER, Engine, machine_uid, qemu_mark, uml_mark
from .guest import SEED_KEY
from .image import manifest_of
from .messages import MESSAGES
from .recipes import EPOCH

_SECONDS = 30  # for a command that only uses this machine's kernel
_TERM_SECONDS = 3  # for a machine to end after a signal
_KILL_SECONDS = 60  # for the kernel to free the memory of a killed machine
_ROOT = 0  # the user of machines that an earlier release started
_EXEC_SECONDS = 30  # until a started process has become the machine
_PROGRAMS = {engine.program for engine in ENGINES.values()}


class SshKeyKind:
    """`{type, owner}`: a key pair; only root and the user with the uid `owner` may read the private key."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        private = ctx.host.stat(target)
        if private is None or private.mode & 0o077 or not ctx.host.read(f"{target}.pub"):
            return ABSENT
        return {"type": "ed25519", "owner": private.uid}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        if before == ABSENT:
            self.remove(ctx, target, before)  # an incomplete pair, about which ssh-keygen would ask
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ballast", "-f", target]
            ctx.host.run(argv, timeout=_SECONDS)
        stat = ctx.host.stat(target)
        owner = fields(after)["owner"]
        if stat is not None and stat.uid != owner:
            ctx.host.run(["chown", str(owner), target], timeout=_SECONDS)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        ctx.host.remove(target)
        ctx.host.remove(f"{target}.pub")


class HostKeyKind:
    """`{type, owner}`: a machine's ssh host key, made before its first start, and `seed`, the disk that brings the key into the machine and
    that the machine's user can read. The target is the private key."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        parts = [ctx.host.stat(path) for path in (target, _seed_path(target))]
        whole = all(part is not None and not part.mode & 0o077 for part in parts) and ctx.host.read(f"{target}.pub")
        return {"type": "ed25519", "owner": parts[1].uid} if whole and parts[1] is not None else ABSENT

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        self.remove(ctx, target, before)  # an incomplete pair, about which ssh-keygen would ask
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ballast", "-f", target]
        ctx.host.run(argv, timeout=_SECONDS)
        files = {f"{SEED_KEY}{ending}": ctx.host.read(f"{target}{ending}") or b"" for ending in ("", ".pub")}
        ctx.host.write(_seed_path(target), _archive(files), mode=0o600)
        ctx.host.run(["chown", "{0}:{0}".format(fields(after)["owner"]), _seed_path(target)], timeout=_SECONDS)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        for path in (_seed_path(target), f"{target}.pub", target):
            ctx.host.remove(path)


def _archive(files: Mapping[str, bytes]) -> bytes:
    """A tar archive whose members only root may read. Its length is a multiple of 512, as a disk requires."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o600
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


class KnownHostsKind:
    """`{machines: {address: name}, owner, mode}`: the keys of all machines in ssh's format, in a file owned by the uid `owner`."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        stat, data = ctx.host.stat(target), ctx.host.read(target)
        if stat is None or data is None:
            return ABSENT
        rows = [line.split() for line in data.decode(errors="replace").splitlines()]
        here = os.path.dirname(target)
        machines = {row[0]: row[3] for row in rows if len(row) == 4 and row[1:3] == _public_key(ctx.host, here, row[3])}
        return {"machines": machines, "owner": stat.uid, "mode": stat.mode}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        value = fields(after)
        here, machines = os.path.dirname(target), value["machines"]
        named = machines if isinstance(machines, Mapping) else {}
        rows = [[address, *_public_key(ctx.host, here, str(name)), str(name)] for address, name in named.items()]
        ctx.host.write(target, "".join(f"{' '.join(row)}\n" for row in rows).encode(), mode=int(str(value["mode"])))
        stat = ctx.host.stat(target)
        if stat is not None and stat.uid != value["owner"]:
            ctx.host.run(["chown", str(value["owner"]), target], timeout=_SECONDS)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        ctx.host.remove(target)


def _public_key(host: Host, state_dir: str, name: str) -> list[str]:
    path = f"{host_key_path(os.path.join(state_dir, os.path.basename(name)))}.pub"
    return (host.read(path) or b"").decode(errors="replace").split()[:2]


class TapKind:
    """`{bridge}`: a persistent tap device that is up and attached to a bridge."""

    exclusive = True

    def read(self, ctx: Context[Any], target: str) -> Value:
        shown = ctx.host.run(["ip", "-json", "link", "show", "dev", target], timeout=_SECONDS, check=False)
        if shown.status != 0:
            return ABSENT
        link = parse_json(shown.stdout)[0]
        return {"bridge": link.get("master", "") if "UP" in link["flags"] else ""}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        if before == ABSENT:
            # Without an owner, any user could open the tap while no machine uses it.
            ctx.host.run(["ip", "tuntap", "add", target, "mode", "tap", "user", "0"], timeout=_SECONDS)
        bridge = str(fields(after)["bridge"])
        ctx.host.run(["ip", "link", "set", target, "master", bridge, "up"], timeout=_SECONDS)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        ctx.host.run(["ip", "link", "del", target], timeout=_SECONDS)


class DiskKind:
    """`{image, format, owner}`: a disk with the differences from an image, in format `cow` (User Mode Linux) or `qcow2`, owned by the
    uid `owner`."""

    def __init__(self, digest: Callable[[str], str]) -> None:
        self._digest = digest

    def read(self, ctx: Context[Any], target: str) -> Value:
        data = ctx.host.read(f"{target}.json")
        value: Value = parse_json(data) if data else ABSENT
        return value

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        disk = fields(after)
        # Changing the owner keeps the data: disks of an earlier release are owned by root.
        if not _same_disk(before, disk) or ctx.host.stat(target) is None:
            self._make(ctx.host, target, disk)
        ctx.host.run(["chmod", "0600", target], timeout=_SECONDS)
        ctx.host.run(["chown", "{0}:{0}".format(disk["owner"]), target], timeout=_SECONDS)
        ctx.host.write(f"{target}.json", json.dumps(after, sort_keys=True).encode())

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        ctx.host.remove(target)
        ctx.host.remove(f"{target}.json")

    def _make(self, host: Host, target: str, disk: Mapping[str, Value]) -> None:
        image = str(disk["image"])
        manifest = manifest_of(host, os.path.dirname(image))
        if manifest is None or os.path.basename(image) not in manifest["files"]:
            raise MESSAGES.error("vm-image-missing", path=image)
        built = manifest["files"][os.path.basename(image)]
        digest = self._digest(image)
        if digest != built["digest"]:
            raise MESSAGES.error("vm-image-corrupt", found=f"{digest}, built as {built['digest']}", path=image)
        host.remove(target)
        if disk["format"] == "qcow2":
            argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", image, target]
            host.run(argv, timeout=_SECONDS)
            return
        header, size = cow_header(image, size=built["size"], mtime=EPOCH)
        host.write(target, header, mode=0o600)
        host.run(["truncate", f"--size={size}", target], timeout=_SECONDS)


def _same_disk(before: Value, disk: Mapping[str, Value]) -> bool:
    return before != ABSENT and all(fields(before)[name] == disk[name] for name in ("image", "format"))


class MachineKind:
    """`{engine, address, command, uid, tap, files, memory_mib, running}`. The target is the machine's directory, which identifies its process."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        data = ctx.host.read(_definition(target))
        if data is None:
            return ABSENT
        definition: dict[str, Value] = parse_json(data)
        return {**definition, "running": process_of(ctx.host, target) is not None}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        machine = fields(after)
        definition = {name: part for name, part in machine.items() if name != "running"}
        if before != ABSENT:
            stop(ctx.host, target, fields(before))
        end(ctx.host, target)
        ctx.host.write(_definition(target), json.dumps(definition, sort_keys=True).encode())
        if not machine["running"]:
            return
        key = (ctx.host.read(f"{ssh_key_path(os.path.dirname(target))}.pub") or b"").decode().split()[1]
        command = machine["command"]
        words = [str(word).replace(KEY_PLACEHOLDER, key) for word in command] if isinstance(command, list) else []
        engine = ENGINES[str(machine["engine"])]
        confinement = confinement_of(ctx.host, engine, target, machine, program=words[0])
        argv = [*_processor_choice(ctx.host, engine), *confine(words, confinement)]
        started = ctx.host.spawn(argv, log=console_path(target))
        # The spawned process ends once the machine runs or failed to start.
        wait_until(
            ctx.host, lambda: process_of(ctx.host, target) or has_ended(ctx.host, started), seconds=_EXEC_SECONDS
        )

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        """End the machine without shutting it down, as its disk is removed next."""
        end(ctx.host, target)
        ctx.host.remove(_definition(target))


def _processor_choice(host: Host, engine: Engine) -> list[str]:
    """The command prefix that pins a machine with one processor to the processor with the fewest such machines.

    Its kernel and the helpers that run the guest's programs take turns and never run at once. On two processors each turn, and so each
    system call of the guest, would wake up the other processor, at four times the cost [measured].
    """
    allowed = _processors(host, "self") if engine.max_cpus == 1 else []
    if not allowed:
        return []
    held = Counter(cpu for pid in _machines(host) for cpu in _processors(host, str(pid))[:1])
    return ["taskset", "--cpu-list", str(min(allowed, key=lambda cpu: (held[cpu], cpu)))]


def _processors(host: Host, pid: str) -> list[int]:
    """The processors that a process may run on."""
    # proc_pid_status(5): `Cpus_allowed_list: 0-3,6`.
    rows = (host.read(f"/proc/{pid}/status") or b"").decode(errors="replace").splitlines()
    text = next((row.partition(":")[2].strip() for row in rows if row.startswith("Cpus_allowed_list:")), "")
    bounds = [part.partition("-") for part in text.split(",") if part]
    return [cpu for first, _dash, last in bounds for cpu in range(int(first), int(last or first) + 1)]


def known_hosts_path(state_dir: str) -> str:
    return os.path.join(state_dir, "known_hosts")


def host_key_path(directory: str) -> str:
    """A machine's own key, by which ssh knows it."""
    return os.path.join(directory, "host_key")


def _seed_path(host_key: str) -> str:
    return os.path.join(os.path.dirname(host_key), "seed")


def ssh_key_path(state_dir: str) -> str:
    """The private key that all machines accept; the public one has the suffix .pub."""
    return os.path.join(state_dir, "ssh_key")


def console_path(directory: str) -> str:
    return os.path.join(directory, "console.log")


def definition_of(host: Host, directory: str) -> Optional[dict[str, Value]]:
    """The machine in this directory as it was recorded before its last start; None when there is no machine."""
    data = host.read(_definition(directory))
    return parse_json(data) if data is not None else None


def _definition(directory: str) -> str:
    return os.path.join(directory, "vm.json")


def process_of(host: Host, directory: str) -> Optional[ProcessId]:
    """The process of the machine with its files in `directory`: the leader of the session of its processes."""
    return next((process for process in processes_of(host, directory) if leads_session(host, process.pid)), None)


def processes_of(host: Host, directory: str) -> list[ProcessId]:
    """Every process of an engine whose command names the directory. User Mode Linux has many with the same command: its own
    helpers, and one for each process of the guest."""
    marks, users = {uml_mark(directory), qemu_mark(directory)}, (machine_uid(directory), _ROOT)
    candidates = (process.id for process in _engines(host) if is_of(process, users))
    return [process for process in candidates if marks.intersection(read_command(host, process))]


def _machines(host: Host) -> list[int]:
    """The User Mode Linux machines of all labs on this host."""
    pids = (process.pid for process in _engines(host) if program(process) == ENGINES["uml"].program)
    return [pid for pid in pids if leads_session(host, pid)]


def _engines(host: Host) -> Iterator[Process]:
    """The engines' processes that belong to our users; those of other users may only look like them."""
    return (process for process in list_processes(host, _PROGRAMS) if is_of(process, OWN_UIDS) or is_of_root(process))


def stop(host: Host, directory: str, definition: Mapping[str, Value]) -> None:
    """Power the machine off; kill it if it does not comply in time."""
    engine = ENGINES[str(definition["engine"])]
    machine = process_of(host, directory)
    if machine is not None and ask_to_power_off(host, directory, definition):
        _wait_for_end(host, machine, seconds=engine.stop_seconds)
    end(host, directory)


def ask_to_power_off(host: Host, directory: str, definition: Mapping[str, Value]) -> bool:
    """Whether the guest accepted the command."""
    order = ["systemctl", "start", "--no-block", "--job-mode=replace-irreversibly", "poweroff.target"]
    engine = ENGINES[str(definition["engine"])]
    argv = ssh_command(directory, str(definition["address"]), order, seconds=engine.login_seconds)
    return host.run(argv, timeout=2 * engine.login_seconds, check=False).status == 0


def end(host: Host, directory: str) -> None:
    """End the processes of this machine, and no others, and so release its files.

    A killed machine with much memory takes long to disappear, and shows no command meanwhile, so processes seen before are waited for. A
    kernel that dies last may have started further helpers, so the search is repeated until none is found.
    """
    machine = process_of(host, directory)
    seen: set[ProcessId] = set()
    if machine is not None:
        seen.add(machine)
        host.signal(machine, signal.SIGTERM)
        _wait_for_end(host, machine, seconds=_TERM_SECONDS)

    def gone() -> bool:
        # Processes that did not end in time, and helpers that outlive a killed kernel with its files open.
        left = processes_of(host, directory)
        for process in left:
            host.signal(process, signal.SIGKILL)
        seen.update(left)
        return not left and all(has_ended(host, process) for process in seen)

    wait_until(host, gone, seconds=_KILL_SECONDS, interval=0.05)


def _wait_for_end(host: Host, process: ProcessId, *, seconds: float) -> None:
    wait_until(host, lambda: has_ended(host, process), seconds=seconds, interval=0.05)


def ssh_options(directory: str) -> list[str]:
    """Options for ssh(1), which Ansible passes too."""
    return [
        *("-o", "StrictHostKeyChecking=yes", "-o", "GlobalKnownHostsFile=none"),
        *("-o", f"UserKnownHostsFile={known_hosts_path(os.path.dirname(directory))}"),
        *("-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR"),
    ]


def ssh_command(directory: str, address: str, order: Sequence[str], *, seconds: int) -> list[str]:
    """`order` must consist of plain words: a shell in the guest joins and splits them again."""
    key = ssh_key_path(os.path.dirname(directory))
    limits = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={seconds}"]
    return ["ssh", "-F", "none", "-i", key, *ssh_options(directory), *limits, f"root@{address}", *order]


def console_tail(host: Host, directory: str) -> str:
    """The reason of a kernel panic, which a long trace follows, and the last lines of the console."""
    text = (host.read_end(console_path(directory), LOG_LIMIT) or b"").decode(errors="replace")
    lines = "".join(letter for letter in text if letter.isprintable() or letter == "\n").splitlines()
    panics = [line for line in lines if "Kernel panic" in line]
    return "\n".join([*panics[-1:], last_lines("\n".join(lines))])
