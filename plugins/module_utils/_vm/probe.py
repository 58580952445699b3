# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which engine runs the machines: the first of the table that really boots, asked by booting it.

A device such as /dev/kvm may open and still not run a kernel, so nothing less than a boot is an answer. The answer is
kept in the cache until this machine starts again, gets another kernel, or gets or loses an engine's program.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from .._core.errors import BallastError, CommandFailed
from .._core.events import NullSink, Progress
from .._core.host import Host
from .build import require_tools
from .engines import Engine, Kernel, Machine, probe_command
from .guest import PROBE_MARK
from .image import ENGINE as IMAGE_ENGINE
from .image import ImageDesired
from .messages import MESSAGES
from .recipes import RECIPES

AUTO = "auto"
_PROBE_MIB = 256


@dataclass(frozen=True)
class Choice:
    engine: str
    why: str
    probed: bool = True  # False: the answer may be another one once the image is there


def choose(
    host: Host, engines: Mapping[str, Engine], *, asked: str, recorded: str, image: str, cache_dir: str
) -> Choice:
    """`recorded` is the engine that existing machines were made with, or empty."""
    if asked != AUTO:
        return Choice(engine=asked, why="asked for")
    if recorded:
        return Choice(engine=recorded, why="the machines were made with it")
    path = os.path.join(cache_dir, "engine.json")
    circumstances = _circumstances(host, engines)
    known = json.loads(host.read(path) or b"{}")
    if known.get("circumstances") == circumstances:
        return Choice(**known["choice"])
    if host.stat(image) is None:
        # /dev/kvm promises least, so a guess leaves it out.
        guesses = [engine.name for engine in engines.values() if engine.name != "kvm" and host.which(engine.program)]
        return Choice(engine=[*guesses, "uml"][0], why="not tried: the image is not there yet", probed=False)
    choice = _first_that_boots(host, engines, image=image, cache_dir=cache_dir)
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


def _first_that_boots(host: Host, engines: Mapping[str, Engine], *, image: str, cache_dir: str) -> Choice:
    refused: list[str] = []
    for engine in engines.values():
        reason = _refusal(host, engine, image=image, cache_dir=cache_dir)
        if not reason:
            why = "; ".join([*refused, f"{engine.name} boots"])
            return Choice(engine=engine.name, why=why)
        refused.append(f"{engine.name}: {reason}")
    raise MESSAGES.error("vm-engine-missing", found="\n".join(refused))


def _refusal(host: Host, engine: Engine, *, image: str, cache_dir: str) -> str:
    """Why this engine cannot run machines here; empty when it can."""
    if engine.name == "kvm" and host.stat("/dev/kvm") is None:
        return "there is no /dev/kvm"
    try:
        require_tools(host, engine.tools)
        kernel = ensure_kernel(host, engine, cache_dir=cache_dir)
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
    host.make_directory(os.path.join(directory, "uml"), mode=0o700)
    try:
        ended = host.run(probe_command(engine, machine, kernel), timeout=engine.probe_seconds, check=False)
    except CommandFailed:
        return f"did not boot within {engine.probe_seconds} seconds"
    finally:
        host.remove_tree(directory)
    lines = [line.strip() for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
    return "" if PROBE_MARK in ended.stdout else f"ended before it had booted: {(lines or ['no output'])[-1]}"


def kernel_desired(engine: Engine, *, cache_dir: str) -> ImageDesired:
    recipe = RECIPES[engine.kernel]
    return ImageDesired(name=recipe.name, recipe=recipe, cache_dir=cache_dir)


def kernel_of(host: Host, engine: Engine, *, cache_dir: str) -> Kernel:
    """Where the kernel of an engine lies, or will lie once it is built."""
    desired = kernel_desired(engine, cache_dir=cache_dir)
    modules = desired.path(desired.order(host).key)
    if desired.recipe.build == "uml-modules":
        return Kernel(modules=modules)
    directory = os.path.dirname(modules)
    if desired.recipe.build == "uml-kernel":
        return Kernel(modules=modules, vmlinuz=f"{directory}/linux.uml")
    return Kernel(modules=modules, vmlinuz=f"{directory}/vmlinuz", initrd=f"{directory}/initrd")


def ensure_kernel(host: Host, engine: Engine, *, cache_dir: str) -> Kernel:
    """Build it when the cache has none."""
    desired = kernel_desired(engine, cache_dir=cache_dir)
    plan = IMAGE_ENGINE.plan(desired, IMAGE_ENGINE.observe(desired, host))
    IMAGE_ENGINE.apply(plan, desired, host, Progress(NullSink(), feature=IMAGE_ENGINE.name))
    return kernel_of(host, engine, cache_dir=cache_dir)
