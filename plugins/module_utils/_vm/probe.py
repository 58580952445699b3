# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chooses the engine of the machines: the first in the table that boots a probe.

A device such as /dev/kvm may open and still be unable to run a kernel, so only a boot proves an engine. The choice is cached until this
machine restarts, gets another kernel, or gets or loses an engine's program.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from .._core.engine.context import Context
from .._core.engine.events import Progress
from .._core.engine.plan import Value
from .._core.host.host import Host
from .._core.text.errors import BallastError, CommandFailed
from .._core.text.json_text import parse_json
from .build import require_tools
from .confine import confine
from .confinement import confinement_of
from .engines import Engine, Kernel, Machine, files_of, probe_command
from .guest import PROBE_MARK
from .image import ENGINE as IMAGE_ENGINE
from .image import ImageRequest
from .messages import MESSAGES
from .recipes import RECIPES

AUTO = "auto"
_PROBE_MIB = 256


@dataclass(frozen=True)
class Choice:
    """The engine of the machines, and the reason in a few words."""

    engine: str
    why: str
    probed: bool = True  # False: the choice may change once the image exists


def choose(
    host: Host,
    engines: Mapping[str, Engine],
    progress: Progress,
    *,
    requested: str,
    recorded: str,
    image: str,
    cache_dir: str,
) -> Choice:
    """`recorded` is the engine of existing machines, or ""."""
    if requested != AUTO:
        return Choice(engine=requested, why="asked for")
    if recorded:
        return Choice(engine=recorded, why="the machines were created with it")
    path = os.path.join(cache_dir, "engine.json")
    circumstances = _circumstances(host, engines)
    known = parse_json(host.read(path) or b"{}")
    if known.get("circumstances") == circumstances:
        return Choice(**known["choice"])
    if host.stat(image) is None:
        # That /dev/kvm opens proves least, so a guess ignores it.
        guesses = [engine.name for engine in engines.values() if engine.name != "kvm" and host.which(engine.program)]
        return Choice(engine=[*guesses, "uml"][0], why="not tried: the image does not exist yet", probed=False)
    choice = _first_that_boots(host, engines, progress, image=image, cache_dir=cache_dir)
    kept = {"circumstances": circumstances, "choice": asdict(choice)}
    host.write(path, json.dumps(kept, sort_keys=True, indent=1).encode())
    return choice


def _circumstances(host: Host, engines: Mapping[str, Engine]) -> Mapping[str, str]:
    files = ("/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/osrelease")
    programs = sorted({engine.program for engine in engines.values() if host.which(engine.program)})
    read = {path: (host.read(path) or b"").decode().strip() for path in files}
    return {
        **read,
        "kvm": str(host.stat("/dev/kvm") is not None),
        "programs": " ".join(programs),
        "uml": engines["uml"].kernel,
    }


def _first_that_boots(
    host: Host, engines: Mapping[str, Engine], progress: Progress, *, image: str, cache_dir: str
) -> Choice:
    refused: list[str] = []
    for engine in engines.values():
        progress.started("engine", f"try to boot {engine.name}")
        reason = _refusal(host, engine, progress, image=image, cache_dir=cache_dir)
        if not reason:
            why = "; ".join([*refused, f"{engine.name} boots"])
            return Choice(engine=engine.name, why=why)
        refused.append(f"{engine.name}: {reason}")
    raise MESSAGES.error("vm-engine-missing", found="\n".join(refused))


def _refusal(host: Host, engine: Engine, progress: Progress, *, image: str, cache_dir: str) -> str:
    """Why this engine cannot run machines here; "" if it can."""
    if engine.name == "kvm" and host.stat("/dev/kvm") is None:
        return "/dev/kvm does not exist"
    try:
        require_tools(host, engine.tools)
        kernel = ensure_kernel(host, engine, progress, cache_dir=cache_dir)
    except BallastError as error:
        return error.text
    directory = os.path.join(cache_dir, "probe")
    machine = Machine(
        name="probe",
        directory=directory,
        tap="",
        address="",
        gateway="",
        memory_mib=_PROBE_MIB,
        cpus=1,
        image=image,
    )
    argv = probe_command(engine, machine, kernel)
    value: dict[str, Value] = {
        "uid": machine.uid,
        "tap": "",
        "files": list(files_of(machine, kernel)),
        "memory_mib": _PROBE_MIB,
    }
    started = confine(argv, confinement_of(host, engine, directory, value, program=argv[0]), wait=True)
    try:
        ended = host.run(started, timeout=engine.probe_seconds, check=False)
    except CommandFailed:
        return f"did not boot within {engine.probe_seconds} seconds"
    lines = [line.strip() for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
    return "" if PROBE_MARK in ended.stdout else f"ended before it booted: {(lines or ['no output'])[-1]}"


def kernel_request(engine: Engine, *, cache_dir: str) -> ImageRequest:
    """The request for the image of the engine's kernel."""
    recipe = RECIPES[engine.kernel]
    return ImageRequest(name=recipe.name, recipe=recipe, cache_dir=cache_dir)


def kernel_of(host: Host, engine: Engine, *, cache_dir: str) -> Kernel:
    """The paths of an engine's kernel, even before it is built."""
    desired = kernel_request(engine, cache_dir=cache_dir)
    modules = desired.path(desired.order(host).key)
    if desired.recipe.build == "uml-modules":
        return Kernel(modules=modules)
    directory = os.path.dirname(modules)
    if desired.recipe.build == "uml-kernel":
        return Kernel(modules=modules, vmlinuz=f"{directory}/linux.uml")
    return Kernel(modules=modules, vmlinuz=f"{directory}/vmlinuz", initrd=f"{directory}/initrd")


def ensure_kernel(host: Host, engine: Engine, progress: Progress, *, cache_dir: str) -> Kernel:
    """Build the kernel when the cache lacks it."""
    desired = kernel_request(engine, cache_dir=cache_dir)
    ctx = Context(desired, host, progress)
    IMAGE_ENGINE.apply(IMAGE_ENGINE.plan(desired, IMAGE_ENGINE.observe(ctx)), ctx)
    return kernel_of(host, engine, cache_dir=cache_dir)
