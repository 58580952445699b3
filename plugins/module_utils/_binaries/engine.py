# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Binaries as resources: a cache of builds, and a directory of links to exactly the requested binaries.

    CACHE/kubernetes-1.37.1-4f0c.../kubelet       a binary, recorded in manifest.json beside it
    CACHE/kubernetes-1.37.1-4f0c.../proof.json    its API servers ran and served
    CACHE/sets/91ab.../kubelet -> the binary      the path that services use
    CACHE/work/                                   of the present run

The cache keeps binaries of other requests: two labs may use two versions. Only `state: absent` removes, and it removes everything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Optional

from .._core.engine.context import Context
from .._core.engine.engine import Finding, ResourceEngine
from .._core.engine.kinds import Kind, fields
from .._core.engine.ownership import is_only_marked, release
from .._core.engine.plan import ABSENT, Plan, Policy, Recorded, Resource, State, Value
from .._core.host.host import Host
from .._core.text.errors import BallastError, Problems
from .._core.text.json_text import parse_json
from .make import Maker
from .manifest import Hashed, read_manifest, read_program, remove_program
from .messages import MESSAGES
from .request import GO, BinariesRequest, Build
from .smoke import ANSWERS, smoke

PROGRAM = "binaries-program"
PROOF = "binaries-proof"
SET = "binaries-set"

_API_SERVERS = ("generic-apiserver", "hyper-mini", "kube-apiserver")
_RESULT_BYTES = 2**30  # all binaries of one request, with some margin


class ProgramKind:
    """Target: the file. Value: its recipe, or `{damaged: ...}`."""

    def __init__(self) -> None:
        self._maker: Optional[Maker] = None  # of the present run, whose downloads serve its next binaries too
        self.hashed = Hashed()

    def read(self, ctx: Context[Any], target: str) -> Value:
        return read_program(ctx.host, target, self.hashed)

    def write(self, ctx: Context[BinariesRequest], target: str, after: Value, before: Value) -> None:
        # The plan was made before this run had the lock: another run may have made the binary since.
        if read_program(ctx.host, target) != after:
            if self._maker is None or self._maker.desired is not ctx.desired:
                self._maker = Maker(ctx.desired, ctx.progress)
            self._maker.make(ctx.host, target)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        remove_program(ctx.host, target)


class ProofKind:
    """Target: `proof.json` of a build. Value: what its API servers answered; only valid for the files that were run."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        data = ctx.host.read(target)
        if data is None:
            return ABSENT
        proof: Mapping[str, Value] = parse_json(data)
        return proof["answers"] if proof.get("sha256") == _sums(ctx.host, os.path.dirname(target)) else ABSENT

    def write(self, ctx: Context[BinariesRequest], target: str, after: Value, before: Value) -> None:
        maker, host = Maker(ctx.desired, ctx.progress), ctx.host
        build = os.path.dirname(target)
        sums = _sums(host, build)
        servers = {name: os.path.join(build, name) for name in sums}
        work = os.path.join(maker.work, "smoke")
        maker.clear(host)  # leftovers of a killed run, whose etcd may keep them open until timeout(1) ends it
        try:
            smoke(host, ctx.progress, etcd=ctx.desired.paths["etcd"], servers=servers, work=work)
        finally:
            maker.clear(host)
        host.write(target, json.dumps({"answers": after, "sha256": sums}, indent=2, sort_keys=True).encode() + b"\n")
        ctx.progress.done("API servers", f"{', '.join(sums)} answered {', '.join(ANSWERS)}")

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        ctx.host.remove(target)


class SetKind:
    """Target: a directory. Value: its links, with their targets."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        if ctx.host.stat(target) is None:
            return ABSENT
        return {name: ctx.host.readlink(os.path.join(target, name)) for name in ctx.host.listdir(target)}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        links = fields(after)
        ctx.host.make_directory(target)
        for name in ctx.host.listdir(target):
            if name not in links:
                ctx.host.remove(os.path.join(target, name))
        for name, path in links.items():
            ctx.host.symlink(os.path.join(target, name), str(path))

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        ctx.host.remove_tree(target)


def _sums(host: Host, build: str) -> dict[str, Value]:
    """The recorded SHA-256 of the API servers in a build. Missing ones are omitted."""
    manifest = read_manifest(host, build)
    programs = manifest.programs if manifest else {}
    there = [name for name in _API_SERVERS if name in programs and host.stat(os.path.join(build, name))]
    return {name: programs[name].sha256 for name in there}


class BinariesEngine(ResourceEngine[BinariesRequest]):
    name = "binaries"
    policy = Policy.KEEP
    programs = ProgramKind()
    kinds: Mapping[str, Kind] = {PROGRAM: programs, PROOF: ProofKind(), SET: SetKind()}

    def wanted(self, ctx: Context[BinariesRequest]) -> list[Resource]:
        desired = ctx.desired
        if not desired.present:
            return []
        made = [_program(desired, build, name) for build in desired.builds for name in build.programs]
        proofs = [_proof(desired, build) for build in desired.builds if _is_provable(desired, build)]
        return [*made, *proofs, _set(desired)]

    def read_recorded(self, ctx: Context[BinariesRequest]) -> tuple[Recorded, ...]:
        """Only the binaries in the request: the rest of the cache belongs to other requests and is not hashed."""
        recorded = super().read_recorded(ctx)
        if not ctx.desired.present:
            return recorded
        keys = {resource.key for resource in self.wanted(ctx)}
        return tuple(record for record in recorded if record.key in keys)

    def plan(self, desired: BinariesRequest, state: State) -> Plan:
        """Refuses damaged binaries instead of replacing them silently, so that the operator can find the cause first."""
        if desired.present:
            damage = [(target, _damage(value)) for (_kind, target), value in sorted(state.values.items())]
            errors = [MESSAGES.error("binaries-damaged", found=text, path=path) for path, text in damage if text]
            Problems.raise_if(errors)
        return super().plan(desired, state)

    def apply(self, plan: Plan, ctx: Context[BinariesRequest]) -> Plan:
        desired, host = ctx.desired, ctx.host
        if desired.present:
            self._check_space(plan, desired, host)
        done = super().apply(plan, ctx)
        if desired.present:
            self.programs.hashed.keep(host)
        if done.steps and not desired.present:
            sets = os.path.join(desired.state_dir, "sets")
            if not host.listdir(sets):
                host.remove_directory(sets)
            if is_only_marked(host, desired.state_dir):
                release(host, desired.state_dir)
        return done

    def _check_space(self, plan: Plan, desired: BinariesRequest, host: Host) -> None:
        targets = {step.target for step in plan.steps if step.kind == PROGRAM}
        builds = [build for build in desired.builds if targets & {desired.path(build, name) for name in build.programs}]
        built = [build.family for build in builds if build.source == GO]
        needs = {desired.state_dir: ("the cache of binaries", _RESULT_BYTES)} if builds else {}
        for path in desired.go_caches if built else ():
            names = ", ".join(family.name for family in built)
            needs[path] = (f"a build of {names}", sum(family.build_bytes for family in built))
        problems: list[BallastError] = []
        for path, (what, size) in needs.items():
            free = host.free_bytes(path)
            if free < size:
                problems.append(
                    MESSAGES.error(
                        "binaries-disk", found=f"{free // 2**20} MiB", what=what, needs=size // 2**20, path=path
                    )
                )
        Problems.raise_if(problems)

    def verify(self, ctx: Context[BinariesRequest]) -> list[Finding]:
        """Checks that each link leads to a binary. Contents were hashed by observe, or just written."""
        desired = ctx.desired
        if not desired.present:
            return []
        broken = []
        for name, path in desired.paths.items():
            link = os.path.join(desired.bin_dir, name)
            stat = ctx.host.stat(path)
            if ctx.host.readlink(link) != path or stat is None or stat.kind != "file":
                broken.append(link)
        errors = [MESSAGES.error("binaries-link", path=link) for link in broken]
        return [
            Finding(id=e.id, subject=os.path.basename(p), text=e.text, remedy=e.remedy) for p, e in zip(broken, errors)
        ]

    def report(self, ctx: Context[BinariesRequest]) -> dict[str, object]:
        """`bin_dir` and its binaries. Those that are not made yet (check mode) have no checksum."""
        desired = ctx.desired
        components = {
            name: _component(desired, build, name, ctx.host)
            for build in desired.builds
            for name in sorted(build.programs)
        }
        versions = {build.family.name: build.version for build in desired.builds if build.version}
        bin_dir = desired.bin_dir if desired.present else ""
        return {"bin_dir": bin_dir, "components": components, "versions": versions}


def _component(desired: BinariesRequest, build: Build, name: str, host: Host) -> dict[str, object]:
    path = desired.path(build, name)
    manifest = read_manifest(host, os.path.dirname(path))
    program = manifest.programs.get(name) if manifest else None
    return {
        "family": build.family.name,
        "source": build.source,
        "path": path,
        "present": program is not None,
        "version": program.version if program else build.version,
        "sha256": program.sha256 if program else "",
        "size": program.size if program else 0,
        "seconds": float(program.seconds) if program else 0.0,
    }


def _program(desired: BinariesRequest, build: Build, name: str) -> Resource:
    title = f"{name} {build.label} ({build.source})"
    return Resource(kind=PROGRAM, target=desired.path(build, name), value=build.recipe, title=title, group=name)


def _is_provable(desired: BinariesRequest, build: Build) -> bool:
    """Only our own builds are tested, and a test needs an etcd."""
    return build.source == GO and "etcd" in desired.paths and any(name in _API_SERVERS for name in build.programs)


def _proof(desired: BinariesRequest, build: Build) -> Resource:
    title = f"trial of the API servers {build.label}: {', '.join(ANSWERS)}"
    value: Value = {"asked": list(ANSWERS)}
    return Resource(kind=PROOF, target=desired.path(build, "proof.json"), value=value, title=title, group="API servers")


def _set(desired: BinariesRequest) -> Resource:
    title = f"links to {len(desired.paths)} binaries"
    return Resource(kind=SET, target=desired.bin_dir, value={**desired.paths}, title=title, group="links")


def _damage(value: Value) -> str:
    """How a binary differs from its manifest; "" if it does not."""
    return str(value.get("damaged", "")) if isinstance(value, Mapping) else ""


def read_damage(ctx: Context[BinariesRequest]) -> dict[str, object]:
    """The result of `kubernetes_binaries_info`: hashes each binary again and reports damage."""
    damage = {name: _damage(read_program(ctx.host, path)) for name, path in ctx.desired.paths.items()}
    return {**ENGINE.report(ctx), "damaged": {name: text for name, text in damage.items() if text}}


ENGINE = BinariesEngine()
