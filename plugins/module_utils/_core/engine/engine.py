# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one shape of a feature: observe, plan, apply, verify.

`BaseEngine` is the shape. `JournalEngine` applies plans step by step and journals them. `ResourceEngine`, which most
features extend, lists the resources that should exist (`wanted`) and has a table of kinds that read and make them. The rest
follows: check mode stops after `plan`, a second run has an empty plan, and removal is the plan for no resources.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, Union

from ..text.errors import BallastError, Bug, HostError
from ..text.run_messages import MESSAGES
from .context import Context
from .journal import Journal, journal_path
from .kinds import Kind
from .ownership import adopt, claim, is_only_marked, list_content, read_mark, refuse_others, release, require_ours
from .plan import ABSENT, AnyPlan, Plan, Policy, Recorded, Resource, State, Step, Value, as_json, plan_resources
from .plan_report import plan_diff, steps_as_result
from .wait import Pending, Ready, wait

_SHOWN = 5  # steps that a finding lists by name
_LOCK_SECONDS = 3600  # the longest run builds programs from source


class Desired(Protocol):
    """What a JournalEngine needs of a request."""

    @property
    def state_dir(self) -> str:
        """The directory of this feature's journal on this machine."""


D = TypeVar("D")
J = TypeVar("J", bound=Desired)
S = TypeVar("S")
P = TypeVar("P", bound=AnyPlan)
JS = TypeVar("JS", bound=State)
JP = TypeVar("JP", bound=Plan)


@dataclass(frozen=True)
class Finding:
    """A problem that `verify` found. A blocking one makes the run fail."""

    id: str
    subject: str
    text: str
    remedy: str
    blocking: bool = True


class BaseEngine(Generic[D, S, P]):
    """What the run loop of the modules calls.

    `observe`, `require`, `verify`, `preview` and `report` may read the machine; only `apply` changes it; `plan`, `as_result`
    and `diff` are pure. A feature implements `observe`, `plan`, `apply` and how its plan is shown.
    """

    planning = "plan"  # the name under which the time spent in `plan` is reported; "compile" where that is most of it

    def observe(self, ctx: Context[D]) -> S:
        """Read the state of the machine without judging it: what `plan` has to refuse is a part of the state."""
        raise NotImplementedError

    def plan(self, desired: D, state: S) -> P:
        """The steps from `state` to `desired`. Raises an error if they must not be done."""
        raise NotImplementedError

    def as_result(self, plan: P) -> dict[str, object]:
        """The plan as a module returns it."""
        raise NotImplementedError

    def diff(self, plan: P) -> list[dict[str, str]]:
        """The state before and after, as Ansible's diff mode shows it."""
        raise NotImplementedError

    def require(self, ctx: Context[D], state: S) -> None:
        """Raise an error, before the first step, if a prerequisite is missing that this feature does not make itself.
        `state` is what `observe` returned.

        Not called in check mode, where an earlier feature may not have made the prerequisite yet.
        """

    def apply(self, plan: P, ctx: Context[D]) -> P:
        """Carry out the plan and return the plan that was carried out: it differs if the machine changed after it was
        observed. What the run reports as changed comes from the returned plan."""
        raise NotImplementedError

    @property
    def is_verified_by_plan(self) -> bool:
        """Whether `verify` only observes and plans again. A run with an empty plan has just done that and omits it."""
        return type(self).verify is BaseEngine.verify

    def verify(self, ctx: Context[D]) -> list[Finding]:
        """Check that the machine is as desired, waiting for it where necessary. By default: a new plan must be empty."""
        left = self.plan(ctx.desired, self.observe(ctx)).steps
        if not left:
            return []
        titles = ", ".join(str(getattr(step, "title", step)) for step in left[:_SHOWN])
        texts = MESSAGES.texts("core-not-held", count=len(left), titles=titles)
        return [Finding(texts["id"], "verify", texts["text"], texts["remedy"])]

    def preview(self, ctx: Context[D]) -> dict[str, object]:
        """The part of `report` that is known before `apply`. Check mode returns it, so that later tasks can be planned."""
        return {}

    def report(self, ctx: Context[D]) -> dict[str, object]:
        """What the module returns besides the common keys."""
        return self.preview(ctx)


class JournalEngine(BaseEngine[J, JS, JP], Generic[J, JS, JP]):
    """A feature whose steps each have a kind and are journaled before and after they are done."""

    name: str
    kinds: Mapping[str, Kind]
    policy: Policy = Policy.KEEP
    record = ""  # a file in the state directory that every journal of this feature names; "" if there is none

    def keys_to_record_again(self, plan: JP, desired: J) -> Collection[tuple[str, str]]:
        """Keys for which the journal must record the state before this run instead of that before the first run. Usually
        none."""
        return ()

    def before_steps(self, plan: JP, ctx: Context[J]) -> None:
        """Do for several steps at once what each step would otherwise do by itself, to save time. Called with the lock held,
        after the run was journaled and before its first step."""

    def as_result(self, plan: JP) -> dict[str, object]:
        return {"steps": steps_as_result(plan)}

    def diff(self, plan: JP) -> list[dict[str, str]]:
        return plan_diff(plan)

    def read_recorded(self, ctx: Context[J]) -> tuple[Recorded, ...]:
        """The resources that the journal lists. HostError where the state directory is not this feature's."""
        require_ours(ctx.host, ctx.desired.state_dir, owner=self.name, record=self.record)
        return self.journal(ctx).recorded

    def values(
        self, ctx: Context[J], recorded: Sequence[Recorded], resources: Sequence[Resource]
    ) -> dict[tuple[str, str], Value]:
        """The present value of each resource that is recorded or wanted, by (kind, target)."""
        keys = {record.key for record in recorded} | {resource.key for resource in resources}
        return {(kind, target): self.read_value(kind, target, ctx) for kind, target in sorted(keys)}

    def claim(self, ctx: Context[J]) -> None:
        """Make the state directory, or verify that it is this feature's. Also called before the progress log is written into
        it."""
        claim(ctx.host, ctx.desired.state_dir, owner=self.name, record=self.record)

    def apply(self, plan: JP, ctx: Context[J]) -> JP:
        """Do the steps in order; return the plan that was carried out. If a step fails, finished steps stay (KEEP) or are
        undone (UNDO).

        The engine owns `state_dir`: it is made when absent, and removed with the journal when nothing is recorded any more.
        """
        if not plan.steps and not self._left_open(ctx):
            return plan
        with hold_lock(self.name, ctx, record=self.record):
            journal = self.journal(ctx)
            adopt(ctx.host, ctx.desired.state_dir, journal.recorded, self.kinds, owner=self.name, record=self.record)
            undone = plan.steps != () and self._undo_killed_run(journal, ctx)
            if undone or journal.recorded != plan.based_on:
                # The machine changed since it was observed: a killed run was undone, or another run came in between.
                plan = self.plan(ctx.desired, self.observe(ctx))
            if plan.steps:
                journal.begin(plan.policy, again=self.keys_to_record_again(plan, ctx.desired))
                self.before_steps(plan, ctx)
                self._do(plan, journal, ctx)
            self._close(journal, ctx)
        return plan

    def read_value(self, kind: str, target: str, ctx: Context[Any]) -> Value:
        """The present value of a resource, in a form that compares equal with what the journal kept."""
        return as_json(self._kind(kind).read(ctx, target))

    def change(self, step: Step, ctx: Context[Any], *, after: Value, before: Value) -> None:
        """Bring the target of a step from one value to another."""
        if after == before:
            return
        kind = self._kind(step.kind)
        if after == ABSENT:
            kind.remove(ctx, step.target, before)
        else:
            kind.write(ctx, step.target, after, before)

    def plan_steps(self, resources: Sequence[Resource], state: JS) -> Plan:
        """The steps from `state` to these resources."""
        processes = [name for name, kind in self.kinds.items() if getattr(kind, "is_process", False)]
        return plan_resources(resources, state, policy=self.policy, processes=processes)

    def journal(self, ctx: Context[J]) -> Journal:
        """Read the journal; it is empty if there is no file. HostError `core-ledger` if a line cannot be understood."""
        return Journal(journal_path(ctx.desired.state_dir), host=ctx.host, kinds=self.kinds)

    def _kind(self, kind: str) -> Kind:
        handler = self.kinds.get(kind)
        if handler is None:
            raise Bug(**MESSAGES.texts("core-kind", engine=self.name, kind=repr(kind)))
        return handler

    def _left_open(self, ctx: Context[J]) -> bool:
        """Whether an earlier run was killed before its first step, after its last step, or during cleanup. Called when the
        plan is empty."""
        journal, host, state_dir = self.journal(ctx), ctx.host, ctx.desired.state_dir
        if journal.recorded:
            return journal.open and not self._another_is_at_work(ctx)
        if {os.path.basename(journal.path), "lock"} & set(host.listdir(state_dir)):
            return True
        return is_only_marked(host, state_dir)

    def _another_is_at_work(self, ctx: Context[J]) -> bool:
        """Whether the open journal belongs to a run that is still alive. With KEEP, what that run makes stays, so a run with
        nothing to do may go on."""
        if self.policy is not Policy.KEEP:
            return False
        try:
            with ctx.host.lock(_lock_path(ctx.desired.state_dir)):
                return False
        except HostError as error:
            if error.id != "core-locked":
                raise
            return True

    def _close(self, journal: Journal, ctx: Context[J]) -> None:
        """End the run. If nothing is recorded, remove the journal, the lock and the directory if it is empty."""
        host, state_dir = ctx.host, ctx.desired.state_dir
        if journal.recorded:
            if journal.open:
                journal.end()
            return
        journal.forget_file()
        mark = read_mark(host, state_dir)
        if mark is not None and mark.made and list_content(host, state_dir) == ["lock"]:
            host.remove_tree(state_dir)
            return
        host.remove(_lock_path(state_dir))
        if is_only_marked(host, state_dir):
            release(host, state_dir)

    def groups_verified(self, desired: J) -> Collection[str]:
        """Groups of steps that are done only once `verify` says so. All other groups are done with their last step."""
        return ()

    def _do(self, plan: JP, journal: Journal, ctx: Context[J]) -> None:
        begun: list[Step] = []
        last_of_group = {step.group: number for number, step in enumerate(plan.steps)}
        ended_by_verify = {"", *self.groups_verified(ctx.desired)}
        try:
            for number, step in enumerate(plan.steps):
                if step.group:
                    ctx.progress.started(step.group, f"{step.verb} {step.title}")
                begun.append(step)
                journal.doing(step)
                self.change(step, ctx, after=step.after, before=step.before)
                journal.done(step)
                if last_of_group[step.group] == number and step.group not in ended_by_verify:
                    ctx.progress.end(step.group)
        except (Exception, KeyboardInterrupt) as error:
            failed = begun[-1]
            where = f"in step {len(begun)} of {len(plan.steps)}, {failed.verb} {failed.title}"
            fate = "finished steps are kept; run the same command again to resume"
            if plan.policy is Policy.UNDO:
                left = self._undo(tuple(begun), journal, ctx)
                fate = f"undone: {len(begun) - len(left)} of {len(begun)} steps; left: {'; '.join(left) or 'nothing'}"
                if not left:
                    with suppress(HostError):  # on a full disk the next run closes it
                        self._close(journal, ctx)
            ctx.progress.failed(failed.group or failed.title, where)
            if isinstance(error, KeyboardInterrupt):
                raise HostError(**MESSAGES.texts("core-interrupted", where=f"{where}; {fate}")) from error
            if isinstance(error, BallastError):
                error.text = f"{error.text}\n  step:  {where}; {fate}"
            raise

    def _undo_killed_run(self, journal: Journal, ctx: Context[J]) -> bool:
        """Undo what a killed run with policy UNDO began. Returns whether there was such a run."""
        run = journal.unfinished
        if run.policy is not Policy.UNDO or not run.steps:
            return False
        left = self._undo(run.steps, journal, ctx)
        if left:
            raise HostError(**MESSAGES.texts("core-undo", found="\n".join(left), count=len(left)))
        journal.end()
        return True

    def _undo(self, steps: tuple[Step, ...], journal: Journal, ctx: Context[J]) -> list[str]:
        """Undo the steps, newest first, as far as possible. Returns the titles of those that remain, the first with the
        reason.

        Stops at the first step that fails, because older steps may be what it depends on, as a bridge is for the links
        attached to it. The last step may have been done in part: it is undone from what is there.
        """
        for number, step in reversed(list(enumerate(steps))):
            try:
                self.change(step, ctx, after=step.before, before=self.read_value(step.kind, step.target, ctx))
            except Exception as error:
                reason = error.text if isinstance(error, BallastError) else repr(error)
                return [f"{step.title}: {reason}", *(older.title for older in reversed(steps[:number]))]
            with suppress(HostError):  # on a full disk: the next run repeats this undo, which then changes nothing
                journal.undone(step)
            ctx.progress.undone(step.group or step.title, step.title)
        return []


class ResourceEngine(JournalEngine[J, State, Plan], Generic[J]):
    """A feature that is a list of resources. It implements `wanted`, and usually `report`."""

    def wanted(self, ctx: Context[J]) -> list[Resource]:
        """The resources that should exist, in creation order; empty for `state: absent`. May read the machine."""
        raise NotImplementedError

    def observe(self, ctx: Context[J]) -> State:
        recorded, resources = self.read_recorded(ctx), self.wanted(ctx)
        return State(recorded, self.values(ctx, recorded, resources), tuple(resources))

    def plan(self, desired: J, state: State) -> Plan:
        refuse_others(state.wanted, {record.key for record in state.recorded}, state.values, self.kinds)
        return self.plan_steps(state.wanted, state)


@contextmanager
def hold_lock(name: str, ctx: Context[Desired], *, record: str = "") -> Iterator[None]:
    """Hold the lock of a feature's state directory. The directory is made when absent, and refused when it is not the
    feature's.

    Waits for as long as another run holds the lock: two labs started at once then build their binaries only once.
    """
    host, state_dir = ctx.host, ctx.desired.state_dir
    subject, waited = f"{name} in {state_dir}", False
    with ExitStack() as held:

        def probe() -> Union[Ready[None], Pending]:
            nonlocal waited
            try:
                claim(host, state_dir, owner=name, record=record)
            except HostError as error:
                if error.id != "core-eexist":  # another run has just made it
                    raise
                return Pending("another run begins here")
            try:
                held.enter_context(host.lock(_lock_path(state_dir)))
            except HostError as error:
                if error.id != "core-locked":
                    raise
                waited = True
                return Pending(f"another run is active here, {error.found}")
            return Ready(None)

        wait(host, ctx.progress, subject, probe, deadline_seconds=_LOCK_SECONDS, interval=0.5)
        if waited:
            ctx.progress.done(subject, "the other run has ended")
        yield


def _lock_path(state_dir: str) -> str:
    return os.path.join(state_dir, "lock")
