# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Engine of `lab_vm`: the virtual machines of a lab, all in one execution.

    STATE_DIR/engine.json, ssh_key, ssh_key.pub, known_hosts
    STATE_DIR/vm1/vm.json, disk, disk.json, host_key, host_key.pub, seed, console.log

Machines are started one after the other and boot in parallel; `verify` waits until all answer ssh.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Optional, Union

from .._core.engine.context import Context
from .._core.engine.engine import Finding, ResourceEngine
from .._core.engine.events import Progress
from .._core.engine.kinds import BASE_KINDS, Kind, directory, fields, file
from .._core.engine.plan import ABSENT, Plan, Resource, State, Value
from .._core.engine.wait import Impossible, Pending, Ready, wait
from .._core.host.host import Host
from .._core.host.processes import has_ended
from .._core.host.tables import read_meminfo
from .._core.text.errors import BallastError, Problems
from .._core.text.json_text import parse_json
from .build import require_tools
from .engines import ENGINES, Engine, Kernel, Machine, command, files_of
from .image import is_whole
from .kinds import (
    DiskKind,
    HostKeyKind,
    KnownHostsKind,
    MachineKind,
    SshKeyKind,
    TapKind,
    ask_to_power_off,
    console_path,
    console_tail,
    definition_of,
    host_key_path,
    known_hosts_path,
    process_of,
    ssh_command,
    ssh_key_path,
    ssh_options,
)
from .messages import MESSAGES
from .model import VmRequest
from .probe import Choice, choose, ensure_kernel, kernel_of
from .sparse import image_digest

_DISK_FREE_MIB = 1024  # MiB for each new machine, as a node writes that much in its first minutes


class VmEngine(ResourceEngine[VmRequest]):
    name = "vm"

    def __init__(self, digest: Callable[[str], str] = image_digest) -> None:
        self.kinds: Mapping[str, Kind] = {
            **BASE_KINDS,
            "ssh-key": SshKeyKind(),
            "host-key": HostKeyKind(),
            "known-hosts": KnownHostsKind(),
            "tap": TapKind(),
            "disk": DiskKind(digest),
            "machine": MachineKind(),
        }

    def wanted(self, ctx: Context[VmRequest]) -> list[Resource]:
        """The machines' engine and kernel depend on this machine."""
        desired, host = ctx.desired, ctx.host
        if not desired.present:
            return []
        choice = _choose(desired, host, ctx.progress)
        engine = desired.engines[choice.engine]
        kernel = kernel_of(host, engine, cache_dir=desired.cache_dir)
        text = json.dumps({"engine": engine.name, "why": choice.why}) + "\n"
        addresses = {machine.address.split("/")[0]: machine.name for machine in desired.machines}
        return [
            file(os.path.join(desired.state_dir, "engine.json"), text, group="engine"),
            Resource(
                kind="ssh-key",
                target=ssh_key_path(desired.state_dir),
                value={"type": "ed25519", "owner": desired.key_owner},
                title="ssh key",
                group="engine",
            ),
            *(part for machine in desired.machines for part in _machine(desired, machine, engine, kernel)),
            Resource(
                kind="known-hosts",
                target=known_hosts_path(desired.state_dir),
                value={"machines": addresses, "owner": desired.key_owner, "mode": 0o600},
                title="ssh host keys",
                group="engine",
            ),
        ]

    def plan(self, desired: VmRequest, state: State) -> Plan:
        if desired.present:
            _refuse_loss(desired, state)
        return super().plan(desired, state)

    def apply(self, plan: Plan, ctx: Context[VmRequest]) -> Plan:
        desired, host = ctx.desired, ctx.host
        starting = [step.target for step in plan.steps if step.kind == "machine" and _runs(step.after)]
        making = [step.target for step in plan.steps if step.kind == "disk" and step.after != ABSENT]
        if starting or making:
            engine = desired.engines[_engine_of(plan) or str(_read_choice(host, desired.state_dir)["engine"])]
            preflight(host, desired, engine, starting=len(starting), making=len(making))
            ctx.progress.started("engine", f"kernel for {engine.name}")
            ensure_kernel(host, engine, ctx.progress, cache_dir=desired.cache_dir)
        for step in plan.steps:
            # Before the first wait for a machine's end, so that they power off in parallel.
            if step.kind == "machine" and step.after != ABSENT and _runs(step.before):
                ctx.progress.started(step.group, f"power off {os.path.basename(step.target)}")
                ask_to_power_off(host, step.target, fields(step.before))
        return super().apply(plan, ctx)

    def groups_verified(self, desired: VmRequest) -> list[str]:
        return [f"virtual machine {machine.name}" for machine in desired.machines if desired.running]

    def verify(self, ctx: Context[VmRequest]) -> list[Finding]:
        """Wait until every machine answers ssh and runs a command. Fails at once when a machine has ended."""
        desired = ctx.desired
        if not desired.running:
            return []
        over = threading.Event()
        with ThreadPoolExecutor(max_workers=max(1, len(desired.machines))) as pool:
            waits = [pool.submit(_wait_ready, ctx.host, ctx.progress, machine, over) for machine in desired.machines]
            try:
                for done in waits:
                    done.result()
            finally:
                over.set()
        return [finding for machine in desired.machines for finding in _cpu_warnings(ctx.host, machine)]

    def report(self, ctx: Context[VmRequest]) -> dict[str, object]:
        desired, host = ctx.desired, ctx.host
        chosen = _read_choice(host, desired.state_dir)
        names = host.listdir(desired.state_dir)
        machines = [_describe(host, os.path.join(desired.state_dir, name)) for name in names]
        return {
            "engine": chosen.get("engine", ""),
            "why": chosen.get("why", ""),
            "ssh_key": ssh_key_path(desired.state_dir) if chosen else "",
            "vms": [row for row in machines if row],
        }


def _choose(desired: VmRequest, host: Host, progress: Progress) -> Choice:
    recorded = _read_choice(host, desired.state_dir)
    choice = choose(
        host,
        desired.engines,
        progress,
        requested=desired.engine,
        recorded=str(recorded.get("engine", "")),
        image=desired.image,
        cache_dir=desired.cache_dir,
    )
    if recorded.get("engine") != choice.engine:
        return choice
    return replace(choice, why=str(recorded["why"]))  # the reason recorded when it was chosen


def _machine(desired: VmRequest, machine: Machine, engine: Engine, kernel: Kernel) -> list[Resource]:
    group = f"virtual machine {machine.name}"
    value: Value = {
        "engine": engine.name,
        "address": machine.address.split("/")[0],
        "command": command(engine, machine, kernel),
        "uid": machine.uid,
        "tap": machine.tap,
        "files": list(files_of(machine, kernel)),
        "memory_mib": machine.memory_mib,
        "running": desired.running,
    }
    form = "cow" if engine.name == "uml" else "qcow2"
    return [
        directory(machine.directory, mode=0o700, group=group),
        Resource(
            kind="host-key",
            target=host_key_path(machine.directory),
            value={"type": "ed25519", "owner": machine.uid},
            title=f"ssh host key of {machine.name}",
            group=group,
        ),
        Resource(
            kind="tap",
            target=machine.tap,
            value={"bridge": desired.bridge},
            title=f"tap {machine.tap}",
            group=group,
        ),
        Resource(
            kind="disk",
            target=machine.disk,
            value={"image": desired.image, "format": form, "owner": machine.uid},
            title=f"disk of {machine.name}",
            group=group,
        ),
        Resource(kind="machine", target=machine.directory, value=value, title=group, group=group),
    ]


def _read_choice(host: Host, state_dir: str) -> dict[str, Any]:
    data = host.read(os.path.join(state_dir, "engine.json"))
    return parse_json(data) if data else {}


def _engine_of(plan: Plan) -> str:
    for step in plan.steps:
        if step.kind == "machine" and step.after != ABSENT:
            return str(fields(step.after)["engine"])
    return ""


def _runs(value: Value) -> bool:
    return value != ABSENT and bool(fields(value)["running"])


def _refuse_loss(desired: VmRequest, state: State) -> None:
    """Refuse changes that lose data: another engine cannot read a machine's disk, and the disk needs its original image."""
    problems: list[BallastError] = []
    values = {resource.key: resource.value for resource in state.wanted}
    for machine in desired.machines:
        engine = fields(values[("machine", machine.directory)])["engine"]
        there = state.values[("disk", machine.disk)]
        made = state.values[("machine", machine.directory)]
        if made != ABSENT and fields(made)["engine"] != engine:
            before = fields(made)["engine"]
            problems.append(MESSAGES.error("vm-engine-changed", path=desired.state_dir, before=before, after=engine))
            break
        if there != ABSENT and fields(there)["image"] != desired.image:
            before = fields(there)["image"]
            problems.append(MESSAGES.error("vm-image-changed", name=machine.name, before=before, after=desired.image))
    Problems.raise_if(problems)


def preflight(host: Host, desired: VmRequest, engine: Engine, *, starting: int, making: int) -> None:
    """Raise together everything that this host lacks to start and make so many machines."""
    problems: list[BallastError] = []
    try:
        require_tools(host, engine.tools)
    except BallastError as error:
        problems.append(error)
    if host.stat("/dev/net/tun") is None:
        problems.append(MESSAGES.error("vm-no-tun"))
    if host.stat(f"/sys/class/net/{desired.bridge}/bridge") is None:
        problems.append(MESSAGES.error("vm-no-bridge", bridge=desired.bridge))
    if not is_whole(host, os.path.dirname(desired.image)):
        problems.append(MESSAGES.error("vm-image-missing", path=desired.image))
    memory = starting * max((machine.memory_mib for machine in desired.machines), default=0)
    free = available_memory_mib(host)
    if memory > free:
        problems.append(MESSAGES.error("vm-memory", needed=memory, free=free))
    disk, disk_free = making * _DISK_FREE_MIB, host.free_bytes(desired.state_dir) // 2**20
    if disk > disk_free:
        problems.append(MESSAGES.error("vm-disk", path=desired.state_dir, needed=disk, free=disk_free))
    Problems.raise_if(problems)


def available_memory_mib(host: Host) -> int:
    """Memory that new programs can get, in whole MiB; 0 when the kernel does not say."""
    return read_meminfo(host).get("MemAvailable", 0) // 2**20


def _wait_ready(host: Host, progress: Progress, machine: Machine, over: threading.Event) -> None:
    definition = definition_of(host, machine.directory)
    process = process_of(host, machine.directory)
    subject = f"virtual machine {machine.name}"
    if definition is None or process is None:
        over.set()
        raise _death(host, machine)
    engine = ENGINES[str(definition["engine"])]
    argv = ssh_command(machine.directory, str(definition["address"]), ["true"], seconds=engine.login_seconds)
    deadline = host.monotonic() + engine.ready_seconds

    def probe() -> Union[Ready[None], Pending, Impossible]:
        if has_ended(host, process):
            over.set()
            raise _death(host, machine)
        if over.is_set():
            return Impossible("the time to wait for it has passed")
        answer = host.run(argv, timeout=2 * engine.login_seconds, check=False)
        if answer.status == 0:
            return Ready(None)
        reason = (answer.stderr.strip().splitlines() or ["ssh reported no reason"])[-1]
        if host.monotonic() > deadline:
            over.set()
            raise MESSAGES.error(
                "vm-not-ready",
                found=f"{reason}\n{console_tail(host, machine.directory)}",
                name=machine.name,
                seconds=engine.ready_seconds,
                console=machine.console,
            )
        return Pending(f"waiting for ssh: {reason}")

    wait(host, progress, subject, probe, deadline_seconds=2 * engine.ready_seconds, interval=0.2)
    progress.done(subject, f"responds to ssh at {definition['address']}")


def _death(host: Host, machine: Machine) -> BallastError:
    tail = console_tail(host, machine.directory)
    return MESSAGES.error("vm-died", found=tail, name=machine.name, console=machine.console)


def _cpu_warnings(host: Host, machine: Machine) -> list[Finding]:
    definition = definition_of(host, machine.directory)
    engine = ENGINES[str(definition["engine"])] if definition else None
    if engine is None or machine.cpus <= engine.max_cpus:
        return []
    warning = MESSAGES.error("vm-one-cpu", most=engine.max_cpus, cpus=machine.cpus, engine=engine.name)
    subject = f"virtual machine {machine.name}"
    return [Finding(id=warning.id, subject=subject, text=warning.text, remedy=warning.remedy, blocking=False)]


def _describe(host: Host, place: str) -> Optional[dict[str, object]]:
    definition = definition_of(host, place)
    if definition is None:
        return None
    return {
        "name": os.path.basename(place),
        "address": definition["address"],
        "engine": definition["engine"],
        "running": (process := process_of(host, place)) is not None,
        "pid": 0 if process is None else process.pid,
        "console": console_path(place),
        "ssh_arguments": " ".join(ssh_options(place)),
    }


ENGINE = VmEngine()
