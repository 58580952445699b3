# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one shape of a feature: observe, plan, apply, verify.

A feature says what should be as a list of resources (`resources`, pure) and hands in a table of kinds. Everything
else follows from the shape: check mode stops after `plan`, a second run has an empty plan, a removal is the plan
for nothing wanted.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, Union

from .errors import BallastError, Bug, HostError
from .events import Progress
from .host import Host
from .kinds import Kind
from .ledger import Ledger, ledger_path
from .plan import ABSENT, AnyPlan, Plan, Policy, Resource, State, Step, Value, as_json, plan_resources
from .told import plan_difference, steps_told
from .wait import Pending, Ready, wait

_LOCK_SECONDS = 3600  # the longest run builds programs from source


class Desired(Protocol):
    @property
    def state_dir(self) -> str:
        """Where the ledger of this feature on this machine lies."""


D = TypeVar("D", bound=Desired)
AnyD_contra = TypeVar("AnyD_contra", contravariant=True)
S = TypeVar("S")
P = TypeVar("P", bound=AnyPlan)


@dataclass(frozen=True)
class Finding:
    """What verify found wrong. A blocking one is a failed step."""

    id: str
    subject: str
    text: str
    remedy: str
    blocking: bool = True


@dataclass(frozen=True)
class Result:
    done: tuple[Step, ...]
    findings: tuple[Finding, ...]


class Engine(Protocol[AnyD_contra, S, P]):
    """The shape itself: what the run loop of the modules asks of a feature. `observe`, `require`, `apply`, `verify` and
    `report` may look at the machine, `apply` alone changes it, the others are pure."""

    planning: str  # how the seconds spent in `plan` are called: "plan", or "compile" where that is most of it

    def observe(self, desired: AnyD_contra, host: Host) -> S: ...

    def plan(self, desired: AnyD_contra, state: S) -> P: ...

    def told(self, plan: P) -> dict[str, object]:
        """The plan as a module returns it."""

    def difference(self, plan: P) -> list[dict[str, str]]:
        """What is and what would be, as Ansible's diff mode shows it."""

    def require(self, desired: AnyD_contra, host: Host) -> None:
        """Raise, before the first step, when something is missing that this feature does not make itself.

        Not asked in check mode, where an earlier feature may not have made it yet.
        """

    def apply(self, plan: P, desired: AnyD_contra, host: Host, progress: Progress) -> object: ...

    def verify(self, desired: AnyD_contra, host: Host, progress: Progress) -> list[Finding]:
        """Ask the real thing whether it is as desired; wait for it where it needs time."""

    def preview(self, desired: AnyD_contra) -> dict[str, object]:
        """The part of `report` that is known beforehand: what check mode returns, so that later tasks can be planned."""

    def report(self, desired: AnyD_contra, host: Host) -> dict[str, object]:
        """What the module returns beside the common keys; the whole of what its `_info` twin returns."""


class ResourceEngine(Generic[D]):
    """Base of a feature that is a list of resources, each made by a step of its own and recorded in a ledger."""

    name: str
    kinds: Mapping[str, Kind]
    policy: Policy = Policy.KEEP
    planning = "plan"

    def resources(self, desired: D) -> list[Resource]:
        """What should be, in the order of making; empty for `state: absent`. Pure."""
        raise NotImplementedError

    def require(self, desired: D, host: Host) -> None:
        """Nothing, where a feature needs nothing that others make."""

    def verify(self, desired: D, host: Host, progress: Progress) -> list[Finding]:
        raise NotImplementedError

    def preview(self, desired: D) -> dict[str, object]:
        return {}

    def report(self, desired: D, host: Host) -> dict[str, object]:
        raise NotImplementedError

    def recorded_anew(self, plan: Plan, desired: D) -> Collection[tuple[str, str]]:
        """Keys of which the record is to say what was there before this run, not before the first. None, as a rule."""
        return ()

    def told(self, plan: Plan) -> dict[str, object]:
        return {"steps": steps_told(plan)}

    def difference(self, plan: Plan) -> list[dict[str, str]]:
        return plan_difference(plan)

    def observe(self, desired: D, host: Host) -> State:
        ledger = Ledger(ledger_path(desired.state_dir), host=host, kinds=self.kinds)
        keys = {record.key for record in ledger.recorded} | {wanted.key for wanted in self.resources(desired)}
        values = {(kind, target): self._read(kind, target, host) for kind, target in sorted(keys)}
        return State(recorded=ledger.recorded, values=values)

    def plan(self, desired: D, state: State) -> Plan:
        return plan_resources(self.resources(desired), state, policy=self.policy)

    def apply(self, plan: Plan, desired: D, host: Host, progress: Progress) -> tuple[Step, ...]:
        """Do the steps in order; answers those done. On failure: with KEEP they stay, with UNDO they are undone.

        `state_dir` belongs to the engine: made when absent, and removed with the ledger when nothing of ours is left.
        """
        if not plan.steps and not self._left_open(desired, host):
            return ()
        with locked(self.name, desired, host, progress):
            ledger = Ledger(ledger_path(desired.state_dir), host=host, kinds=self.kinds)
            undone = plan.steps != () and self._undo_killed_run(ledger, host, progress)
            if undone or ledger.recorded != plan.based_on:
                # The machine changed since it was observed: a killed run was undone, or another run came in between.
                plan = self.plan(desired, self.observe(desired, host))
            if plan.steps:
                ledger.begin(plan.policy, anew=self.recorded_anew(plan, desired))
                self._do(plan, ledger, desired, host, progress)
            self._close(ledger, desired, host)
        return plan.steps

    def _left_open(self, desired: D, host: Host) -> bool:
        """Whether a run was killed after its last step, or before its first, or while it cleaned up."""
        ledger = Ledger(ledger_path(desired.state_dir), host=host, kinds=self.kinds)
        if ledger.recorded:
            return ledger.open
        names = host.listdir(desired.state_dir)
        if {os.path.basename(ledger.path), "lock"} & set(names):
            return True
        return not names and not self.resources(desired) and host.stat(desired.state_dir) is not None

    def _close(self, ledger: Ledger, desired: D, host: Host) -> None:
        """The run is over. With nothing of ours left, neither ledger nor lock nor an empty directory stays."""
        if ledger.recorded:
            if ledger.open:
                ledger.end()
            return
        ledger.forget_file()
        if host.listdir(desired.state_dir) == ["lock"]:
            host.remove_tree(desired.state_dir)
        else:
            host.remove(_lock_path(desired))

    def _do(self, plan: Plan, ledger: Ledger, desired: D, host: Host, progress: Progress) -> None:
        begun: list[Step] = []
        try:
            for step in plan.steps:
                if step.group:
                    progress.started(step.group, f"{step.verb} {step.title}")
                begun.append(step)
                ledger.doing(step)
                self._make(step.kind, step.target, host, after=step.after, before=step.before)
                ledger.done(step)
        except (Exception, KeyboardInterrupt) as error:
            failed = begun[-1]
            where = f"in step {len(begun)} of {len(plan.steps)}, {failed.verb} {failed.title}"
            fate = "what was done stays; run it again to go on"
            if plan.policy is Policy.UNDO:
                left = self._undo(tuple(begun), ledger, host, progress)
                fate = f"undone: {len(begun) - len(left)} of {len(begun)} steps; left: {'; '.join(left) or 'nothing'}"
                if not left:
                    with suppress(HostError):  # on a full disk the next run closes it
                        self._close(ledger, desired, host)
            progress.failed(failed.group or failed.title, where)
            if isinstance(error, KeyboardInterrupt):
                raise HostError(f"interrupted {where}; {fate}", id="core-interrupted") from error
            if isinstance(error, BallastError):
                error.text = f"{error.text}\n  step:  {where}; {fate}"
            raise

    def _undo_killed_run(self, ledger: Ledger, host: Host, progress: Progress) -> bool:
        """Undo what a killed run with the policy UNDO began. Whether there was anything of the kind."""
        run = ledger.unfinished
        if run.policy is not Policy.UNDO or not run.steps:
            return False
        left = self._undo(run.steps, ledger, host, progress)
        if left:
            raise HostError(
                f"an earlier run was killed and {len(left)} of its steps cannot be undone",
                id="core-undo",
                found="\n".join(left),
                remedy="see to what stands in the way, then run the same command again",
                page="docs/errors.md",
            )
        ledger.end()
        return True

    def _undo(self, steps: tuple[Step, ...], ledger: Ledger, host: Host, progress: Progress) -> list[str]:
        """Undo the steps, newest first, as far as they can be undone; answers those that are left, the first with the reason.

        It ends with the first that cannot: those before it may be what it stands on, as a bridge is for what it carries.
        The last may be done in part: it is undone from what is there.
        """
        for number, step in reversed(list(enumerate(steps))):
            try:
                current = self._read(step.kind, step.target, host)
                self._make(step.kind, step.target, host, after=step.before, before=current)
            except Exception as error:
                reason = error.text if isinstance(error, BallastError) else repr(error)
                return [f"{step.title}: {reason}", *(older.title for older in reversed(steps[:number]))]
            with suppress(HostError):  # on a full disk: the next run undoes it again, which then does nothing
                ledger.undone(step)
            progress.undone(step.group or step.title, step.title)
        return []

    def _read(self, kind: str, target: str, host: Host) -> Value:
        return as_json(self._kind(kind).read(host, target))

    def _kind(self, kind: str) -> Kind:
        handler = self.kinds.get(kind)
        if handler is None:
            raise Bug(f"{self.name} has no kind {kind!r}", id="core-kind")
        return handler

    def _make(self, kind: str, target: str, host: Host, *, after: Value, before: Value) -> None:
        if after == before:
            return
        if after == ABSENT:
            self._kind(kind).remove(host, target, before)
        else:
            self._kind(kind).write(host, target, after, before)


@contextmanager
def locked(name: str, desired: Desired, host: Host, progress: Progress) -> Iterator[None]:
    """The lock of a feature's state directory, which is made when absent.

    Waits for another run here as long as it is at work: two labs begun at once build their programs once.
    """
    subject, waited = f"{name} in {desired.state_dir}", False
    with ExitStack() as held:

        def probe() -> Union[Ready[None], Pending]:
            nonlocal waited
            if host.stat(desired.state_dir) is None:  # its mode is not ours to set when somebody made it
                host.make_directory(desired.state_dir)
            try:
                held.enter_context(host.lock(_lock_path(desired)))
            except HostError as error:
                if error.id != "core-locked":
                    raise
                waited = True
                return Pending(f"another run is at work here, {error.found}")
            return Ready(None)

        wait(host, progress, subject, probe, deadline_seconds=_LOCK_SECONDS, interval=0.5)
        if waited:
            progress.done(subject, "the other run has ended")
        yield


def _lock_path(desired: Desired) -> str:
    return os.path.join(desired.state_dir, "lock")
