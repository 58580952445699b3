# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs as resources: a cache of lots, and a set of links that names exactly the ones asked for.

    CACHE/kubernetes-1.37.1-4f0c.../kubelet       a program, recorded in manifest.json beside it
    CACHE/kubernetes-1.37.1-4f0c.../proof.json    its API servers ran and served
    CACHE/sets/91ab.../kubelet -> the program     what services refer to
    CACHE/work/                                   of the run that is at work

The cache keeps what other requests made: two labs may want two versions. Only `state: absent` removes, and then all of it.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from typing import Optional

from .._core.engine import Finding, ResourceEngine
from .._core.errors import BallastError, Bug, Problems
from .._core.events import Progress
from .._core.host import Host
from .._core.kinds import Kind, fields
from .._core.ledger import Ledger, ledger_path
from .._core.plan import ABSENT, Plan, Policy, Resource, State, Step, Value
from .desired import GO, Desired, Lot
from .make import Maker
from .manifest import read_manifest, read_program, remove_program
from .messages import MESSAGES
from .smoke import ANSWERS, smoke

PROGRAM = "binaries-program"
PROOF = "binaries-proof"
SET = "binaries-set"

_API_SERVERS = ("generic-apiserver", "hyper-mini", "kube-apiserver")
_RESULT_BYTES = 2**30  # all programs of one request, with room for the one that is staged


class ProgramKind:
    """Target: the file. Value: the recipe by which it was made, or `{damaged: ...}`."""

    def __init__(self, maker: Optional[Maker] = None) -> None:
        self._maker = maker

    def read(self, host: Host, target: str) -> Value:
        return read_program(host, target)

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        # Planned before the lock was ours: another run may have made it meanwhile.
        if read_program(host, target) != after:
            _bound(self._maker).make(host, target)

    def remove(self, host: Host, target: str, before: Value) -> None:
        remove_program(host, target)


class ProofKind:
    """Target: `proof.json` of a lot. Value: what its API servers were asked. It holds for the very files that were run."""

    def __init__(self, maker: Optional[Maker] = None) -> None:
        self._maker = maker

    def read(self, host: Host, target: str) -> Value:
        data = host.read(target)
        if data is None:
            return ABSENT
        proof: Mapping[str, Value] = json.loads(data)
        return proof["answers"] if proof.get("sha256") == _sums(host, os.path.dirname(target)) else ABSENT

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        maker = _bound(self._maker)
        lot = os.path.dirname(target)
        sums = _sums(host, lot)
        servers = {name: os.path.join(lot, name) for name in sums}
        work = os.path.join(maker.work, "smoke")
        maker.clear(host)  # what a killed run left there may still be held by its etcd, until timeout(1) ends it
        try:
            smoke(host, maker.progress, etcd=maker.desired.paths["etcd"], servers=servers, work=work)
        finally:
            maker.clear(host)
        host.write(target, json.dumps({"answers": after, "sha256": sums}, indent=2, sort_keys=True).encode() + b"\n")
        maker.progress.done("API servers", f"{', '.join(sums)} answered {', '.join(ANSWERS)}")

    def remove(self, host: Host, target: str, before: Value) -> None:
        host.remove(target)


class SetKind:
    """Target: a directory. Value: each link in it with the program it leads to."""

    def read(self, host: Host, target: str) -> Value:
        found = host.stat(target)
        if found is None:
            return ABSENT
        return {name: host.readlink(os.path.join(target, name)) for name in host.listdir(target)}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        wanted = fields(after)
        host.make_directory(target)
        for name in host.listdir(target):
            if name not in wanted:
                host.remove(os.path.join(target, name))
        for name, path in wanted.items():
            host.symlink(os.path.join(target, name), str(path))

    def remove(self, host: Host, target: str, before: Value) -> None:
        host.remove_tree(target)


def _sums(host: Host, lot: str) -> dict[str, Value]:
    """The recorded SHA-256 of the API servers that lie in a lot. One that has to be made again has none yet."""
    manifest = read_manifest(host, lot)
    programs = manifest.programs if manifest else {}
    there = [name for name in _API_SERVERS if name in programs and host.stat(os.path.join(lot, name))]
    return {name: programs[name].sha256 for name in there}


def _bound(maker: Optional[Maker]) -> Maker:
    if maker is None:
        raise Bug("a kind that was made for reading was told to write", id="binaries-unbound")
    return maker


class BinariesEngine(ResourceEngine[Desired]):
    name = "binaries"
    policy = Policy.KEEP

    def __init__(self) -> None:
        self.kinds: Mapping[str, Kind] = {PROGRAM: ProgramKind(), PROOF: ProofKind(), SET: SetKind()}

    def resources(self, desired: Desired) -> list[Resource]:
        if not desired.present:
            return []
        made = [_program(desired, lot, name) for lot in desired.lots for name in lot.programs]
        proofs = [_proof(desired, lot) for lot in desired.lots if _is_provable(desired, lot)]
        return [*made, *proofs, _set(desired)]

    def observe(self, desired: Desired, host: Host) -> State:
        """Of a request for programs only what it names: the rest of the cache belongs to other requests, and is not hashed either."""
        if not desired.present:
            return super().observe(desired, host)
        ledger = Ledger(ledger_path(desired.state_dir), host=host, kinds=self.kinds)
        wanted = {resource.key for resource in self.resources(desired)}
        values = {(kind, target): self.kinds[kind].read(host, target) for kind, target in sorted(wanted)}
        return State(recorded=tuple(record for record in ledger.recorded if record.key in wanted), values=values)

    def plan(self, desired: Desired, state: State) -> Plan:
        """A damaged program is refused, not replaced in silence: who changed it should be known before it is gone."""
        if desired.present:
            damage = [(target, _damage(value)) for (_kind, target), value in sorted(state.values.items())]
            errors = [MESSAGES.error("binaries-damaged", found=text, path=path) for path, text in damage if text]
            Problems.raise_if(errors)
        return super().plan(desired, state)

    def apply(self, plan: Plan, desired: Desired, host: Host, progress: Progress) -> tuple[Step, ...]:
        if desired.present:
            self._check_space(plan, desired, host)
        maker = Maker(desired, progress)
        bound = copy.copy(self)
        bound.kinds = {**self.kinds, PROGRAM: ProgramKind(maker), PROOF: ProofKind(maker)}
        done = super(BinariesEngine, bound).apply(plan, desired, host, progress)
        if done and not desired.present:
            for path in (os.path.join(desired.state_dir, "sets"), desired.state_dir):
                if not host.listdir(path):
                    host.remove_directory(path)
        return done

    def _check_space(self, plan: Plan, desired: Desired, host: Host) -> None:
        targets = {step.target for step in plan.steps if step.kind == PROGRAM}
        lots = [lot for lot in desired.lots if any(desired.path(lot, name) in targets for name in lot.programs)]
        built = [lot.family for lot in lots if lot.source == GO]
        needs = {desired.state_dir: ("the cache of programs", _RESULT_BYTES)} if lots else {}
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

    def verify(self, desired: Desired, host: Host, progress: Progress) -> list[Finding]:
        """Contents were hashed by observe, or just written; what is left to see is that each link leads to one."""
        if not desired.present:
            return []
        broken = []
        for name, path in desired.paths.items():
            link = os.path.join(desired.bin_dir, name)
            found = host.stat(path)
            if host.readlink(link) != path or found is None or found.kind != "file":
                broken.append(link)
        errors = [MESSAGES.error("binaries-link", path=link) for link in broken]
        return [
            Finding(id=e.id, subject=os.path.basename(p), text=e.text, remedy=e.remedy) for p, e in zip(broken, errors)
        ]

    def report(self, desired: Desired, host: Host) -> dict[str, object]:
        """`bin_dir` and what lies there. Programs that are not made yet (check mode) have no checksum."""
        components = {
            name: _component(desired, lot, name, host) for lot in desired.lots for name in sorted(lot.programs)
        }
        versions = {lot.family.name: lot.version for lot in desired.lots if lot.version}
        bin_dir = desired.bin_dir if desired.present else ""
        return {"bin_dir": bin_dir, "components": components, "versions": versions}


def _component(desired: Desired, lot: Lot, name: str, host: Host) -> dict[str, object]:
    path = desired.path(lot, name)
    manifest = read_manifest(host, os.path.dirname(path))
    program = manifest.programs.get(name) if manifest else None
    return {
        "family": lot.family.name,
        "source": lot.source,
        "path": path,
        "present": program is not None,
        "version": program.version if program else lot.version,
        "sha256": program.sha256 if program else "",
        "size": program.size if program else 0,
        "seconds": float(program.seconds) if program else 0.0,
    }


def _program(desired: Desired, lot: Lot, name: str) -> Resource:
    title = f"{name} {lot.label} ({lot.source})"
    return Resource(kind=PROGRAM, target=desired.path(lot, name), value=lot.recipe, title=title, group=name)


def _is_provable(desired: Desired, lot: Lot) -> bool:
    """What upstream released was tried there; a given path is the operator's own affair; and a trial needs an etcd."""
    return lot.source == GO and "etcd" in desired.paths and any(name in _API_SERVERS for name in lot.programs)


def _proof(desired: Desired, lot: Lot) -> Resource:
    title = f"trial of the API servers {lot.label}: {', '.join(ANSWERS)}"
    value: Value = {"asked": list(ANSWERS)}
    return Resource(kind=PROOF, target=desired.path(lot, "proof.json"), value=value, title=title, group="API servers")


def _set(desired: Desired) -> Resource:
    title = f"links to {len(desired.paths)} programs"
    return Resource(kind=SET, target=desired.bin_dir, value={**desired.paths}, title=title, group="links")


def _damage(value: Value) -> str:
    """How a program differs from its record; empty when it does not."""
    return str(value.get("damaged", "")) if isinstance(value, Mapping) else ""


class BinariesReader(BinariesEngine):
    """For the reading twin: it hashes each program again and says whether it is intact."""

    def report(self, desired: Desired, host: Host) -> dict[str, object]:
        told = super().report(desired, host)
        damage = {name: _damage(read_program(host, path)) for name, path in desired.paths.items()}
        return {**told, "damaged": {name: text for name, text in damage.items() if text}}


ENGINE = BinariesEngine()
READER = BinariesReader()
