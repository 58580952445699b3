# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Engine of `lab_vm`: the virtual machines of a lab, all in one execution.

    STATE_DIR/engine.json, ssh_key, ssh_key.pub
    STATE_DIR/vm1/vm.json, disk, disk.json, console.log, known_hosts

They are started one after the other and boot side by side; `verify` waits until every one answers ssh.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Optional, Union

from .._core.engine import Finding, ResourceEngine
from .._core.errors import BallastError, Problems
from .._core.events import Progress
from .._core.host import Host
from .._core.kinds import BASE_KINDS, Kind, directory, fields, file
from .._core.plan import ABSENT, Plan, Resource, State, Step, Value, plan_resources
from .._core.wait import Impossible, Pending, Ready, wait
from .build import require_tools
from .engines import ENGINES, Engine, Kernel, Machine, command
from .image import is_whole
from .kinds import (
    DiskKind,
    MachineKind,
    SshKeyKind,
    TapKind,
    ask_to_power_off,
    console_path,
    console_tail,
    definition_of,
    has_ended,
    known_hosts_path,
    process_of,
    ssh_command,
    ssh_key_path,
    ssh_options,
)
from .messages import MESSAGES
from .model import VmDesired
from .probe import Choice, choose, ensure_kernel, kernel_of
from .sparse import image_digest

_DISK_FREE_MIB = 1024  # per machine that is made: what a node writes in its first minutes


@dataclass(frozen=True)
class VmState(State):
    choice: Choice = Choice(engine="uml", why="", probed=False)
    kernel: Kernel = Kernel(modules="")


class VmEngine(ResourceEngine[VmDesired]):
    name = "vm"

    def __init__(self, digest: Callable[[str], str] = image_digest) -> None:
        self.kinds: Mapping[str, Kind] = {
            **BASE_KINDS,
            "ssh-key": SshKeyKind(),
            "tap": TapKind(),
            "disk": DiskKind(digest),
            "machine": MachineKind(),
        }

    def resources(self, desired: VmDesired) -> list[Resource]:
        """Kinds and targets; the values depend on the engine, which `observe` finds out."""
        return self._resources(desired, VmState(recorded=(), values={}))

    def _resources(self, desired: VmDesired, state: VmState) -> list[Resource]:
        if not desired.present:
            return []
        engine = desired.engines[state.choice.engine]
        chosen = json.dumps({"engine": engine.name, "why": state.choice.why}) + "\n"
        found: list[Resource] = [
            file(os.path.join(desired.state_dir, "engine.json"), chosen, group="engine"),
            Resource(
                kind="ssh-key",
                target=ssh_key_path(desired.state_dir),
                value={"type": "ed25519", "owner": desired.key_owner},
                title="ssh key",
                group="engine",
            ),
        ]
        for machine in desired.machines:
            found += _machine(desired, machine, engine, state.kernel)
        return found

    def observe(self, desired: VmDesired, host: Host) -> VmState:
        seen = super().observe(desired, host)
        if not desired.present:
            return VmState(recorded=seen.recorded, values=seen.values)
        recorded = _chosen(host, desired.state_dir)
        choice = choose(
            host,
            desired.engines,
            asked=desired.engine,
            recorded=str(recorded.get("engine", "")),
            image=desired.image,
            cache_dir=desired.cache_dir,
        )
        if recorded.get("engine") == choice.engine:  # why it was chosen then stays said
            choice = Choice(engine=choice.engine, why=str(recorded["why"]), probed=choice.probed)
        kernel = kernel_of(host, desired.engines[choice.engine], cache_dir=desired.cache_dir)
        return VmState(recorded=seen.recorded, values=seen.values, choice=choice, kernel=kernel)

    def plan(self, desired: VmDesired, state: State) -> Plan:
        if not isinstance(state, VmState):
            raise TypeError(state)
        if desired.present:
            _refuse_loss(desired, state)
        return plan_resources(self._resources(desired, state), state, policy=self.policy)

    def apply(self, plan: Plan, desired: VmDesired, host: Host, progress: Progress) -> tuple[Step, ...]:
        starting = [step.target for step in plan.steps if step.kind == "machine" and _runs(step.after)]
        making = [step.target for step in plan.steps if step.kind == "disk" and step.after != ABSENT]
        if starting or making:
            engine = desired.engines[_engine_of(plan) or str(_chosen(host, desired.state_dir)["engine"])]
            preflight(host, desired, engine, starting=len(starting), making=len(making))
            progress.started("engine", f"kernel for {engine.name}")
            ensure_kernel(host, engine, cache_dir=desired.cache_dir)
        for step in plan.steps:
            # All are asked before the first is waited for, so that they end side by side.
            if step.kind == "machine" and step.after != ABSENT and _runs(step.before):
                progress.started(step.group, f"power off {os.path.basename(step.target)}")
                ask_to_power_off(host, step.target, fields(step.before))
        return super().apply(plan, desired, host, progress)

    def verify(self, desired: VmDesired, host: Host, progress: Progress) -> list[Finding]:
        """Wait until every machine answers ssh and runs a command; end at once when one has died."""
        if not desired.running:
            return []
        over = threading.Event()
        with ThreadPoolExecutor(max_workers=max(1, len(desired.machines))) as pool:
            waits = [pool.submit(_wait_ready, host, progress, machine, over) for machine in desired.machines]
            try:
                for done in waits:
                    done.result()
            finally:
                over.set()
        return [finding for machine in desired.machines for finding in _limits(host, machine)]

    def report(self, desired: VmDesired, host: Host) -> dict[str, object]:
        chosen = _chosen(host, desired.state_dir)
        names = host.listdir(desired.state_dir)
        found = [_described(host, os.path.join(desired.state_dir, name)) for name in names]
        return {
            "engine": chosen.get("engine", ""),
            "why": chosen.get("why", ""),
            "ssh_key": ssh_key_path(desired.state_dir) if chosen else "",
            "vms": [row for row in found if row],
        }


def _machine(desired: VmDesired, machine: Machine, engine: Engine, kernel: Kernel) -> list[Resource]:
    group = f"virtual machine {machine.name}"
    value: Value = {
        "engine": engine.name,
        "address": machine.address.split("/")[0],
        "command": command(engine, machine, kernel),
        "running": desired.running,
    }
    form = "cow" if engine.name == "uml" else "qcow2"
    return [
        directory(machine.directory, mode=0o700, group=group),
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
            value={"image": desired.image, "format": form},
            title=f"disk of {machine.name}",
            group=group,
        ),
        Resource(kind="machine", target=machine.directory, value=value, title=group, group=group),
    ]


def _chosen(host: Host, state_dir: str) -> dict[str, Any]:
    data = host.read(os.path.join(state_dir, "engine.json"))
    return json.loads(data) if data else {}


def _engine_of(plan: Plan) -> str:
    for step in plan.steps:
        if step.kind == "machine" and step.after != ABSENT:
            return str(fields(step.after)["engine"])
    return ""


def _runs(value: Value) -> bool:
    return value != ABSENT and bool(fields(value)["running"])


def _refuse_loss(desired: VmDesired, state: VmState) -> None:
    """Another engine cannot read a machine's disk, and another image does not fit below it."""
    problems: list[BallastError] = []
    for machine in desired.machines:
        there = state.values[("disk", machine.disk)]
        made = state.values[("machine", machine.directory)]
        if made != ABSENT and fields(made)["engine"] != state.choice.engine:
            before = fields(made)["engine"]
            problems.append(
                MESSAGES.error("vm-engine-changed", path=desired.state_dir, before=before, after=state.choice.engine)
            )
            break
        if there != ABSENT and fields(there)["image"] != desired.image:
            before = fields(there)["image"]
            problems.append(MESSAGES.error("vm-image-changed", name=machine.name, before=before, after=desired.image))
    Problems.raise_if(problems)


def preflight(host: Host, desired: VmDesired, engine: Engine, *, starting: int, making: int) -> None:
    """What this machine lacks to start so many machines and make so many disks, all of it at once."""
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
    wanted = starting * max((machine.memory_mib for machine in desired.machines), default=0)
    free = available_memory_mib(host)
    if wanted > free:
        problems.append(MESSAGES.error("vm-memory", wanted=wanted, free=free))
    if engine.memory_in_shm and wanted > host.free_bytes("/dev/shm") // 2**20:
        free = host.free_bytes("/dev/shm") // 2**20
        problems.append(MESSAGES.error("vm-shared-memory", wanted=wanted, free=free))
    disk, disk_free = making * _DISK_FREE_MIB, host.free_bytes(desired.state_dir) // 2**20
    if disk > disk_free:
        problems.append(MESSAGES.error("vm-disk", path=desired.state_dir, wanted=disk, free=disk_free))
    Problems.raise_if(problems)


def available_memory_mib(host: Host) -> int:
    for line in (host.read("/proc/meminfo") or b"").decode().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return 0


def _wait_ready(host: Host, progress: Progress, machine: Machine, over: threading.Event) -> None:
    definition = definition_of(host, machine.directory)
    pid = process_of(host, machine.directory)
    subject = f"virtual machine {machine.name}"
    if definition is None or pid is None:
        over.set()
        raise _died(host, machine)
    engine = ENGINES[str(definition["engine"])]
    argv = ssh_command(machine.directory, str(definition["address"]), ["true"], seconds=engine.login_seconds)
    deadline = host.monotonic() + engine.ready_seconds

    def probe() -> Union[Ready[None], Pending, Impossible]:
        if has_ended(host, pid):
            over.set()
            raise _died(host, machine)
        if over.is_set():
            return Impossible("no longer waited for")
        answer = host.run(argv, timeout=2 * engine.login_seconds, check=False)
        if answer.status == 0:
            _open_known_hosts(host, known_hosts_path(machine.directory))
            return Ready(None)
        reason = (answer.stderr.strip().splitlines() or ["ssh gave no reason"])[-1]
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
    progress.done(subject, f"answers ssh at {definition['address']}")


def _open_known_hosts(host: Host, path: str) -> None:
    """ssh keeps to its user what is public, and what Ansible of another user reads."""
    found = host.stat(path)
    if found is not None and found.mode != 0o644:
        host.run(["chmod", "0644", path], timeout=10)


def _died(host: Host, machine: Machine) -> BallastError:
    tail = console_tail(host, machine.directory)
    return MESSAGES.error("vm-died", found=tail, name=machine.name, console=machine.console)


def _limits(host: Host, machine: Machine) -> list[Finding]:
    definition = definition_of(host, machine.directory)
    engine = ENGINES[str(definition["engine"])] if definition else None
    if engine is None or machine.cpus <= engine.max_cpus:
        return []
    told = MESSAGES.error("vm-one-cpu", most=engine.max_cpus, wanted=machine.cpus, engine=engine.name)
    subject = f"virtual machine {machine.name}"
    return [Finding(id=told.id, subject=subject, text=told.text, remedy=told.remedy, blocking=False)]


def _described(host: Host, place: str) -> Optional[dict[str, object]]:
    definition = definition_of(host, place)
    if definition is None:
        return None
    return {
        "name": os.path.basename(place),
        "address": definition["address"],
        "engine": definition["engine"],
        "running": (pid := process_of(host, place)) is not None,
        "pid": pid or 0,
        "console": console_path(place),
        "ssh_arguments": " ".join(ssh_options(place)),
    }


ENGINE = VmEngine()
