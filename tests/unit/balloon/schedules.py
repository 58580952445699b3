# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run of the scheduler over the model, in any order of steps, and what is to hold after each of them.

Facts reach the run node by node and late; what it asks is under way for a while, may be refused, or be carried out with the
answer lost, or only long after that.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import DONE, Fleet, Node
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.scheduler import (
    Action,
    Resize,
    ResizeScheduler,
    SetLimit,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import MIB, NONE, Resources, total
from tests.unit.balloon.model_kubelet import CONFLICT, OK, World

PAGE = 2**16


@dataclass(eq=False)
class Sent:
    """`given_up`: the scheduler was told that nobody knows what became of it."""

    action: Action
    given_up: bool = False


class Run:
    """One scheduler with what it knows, and what it has under way."""

    def __init__(self, world: World, targets: dict[str, Resources], now: float, *, alone: bool = True) -> None:
        self.world = world
        self.alone = alone
        self.scheduler = ResizeScheduler(targets, grow_timeout=30.0)
        self.sent: list[Sent] = []
        self.known: dict[str, Node] = {}
        self.started = now
        for name in world.kubelets:
            self.watch(name)
        self.decide(now)

    def watch(self, name: str) -> None:
        node = self.world.facts(name)
        if node is None:
            self.known.pop(name, None)
        else:
            self.known[name] = node

    def decide(self, now: float) -> None:
        if self.scheduler.finished:
            return
        fleet = Fleet(dict(self.known), self.world.capacities, self.world.reserve)
        for action in self.scheduler.decide(fleet, now):
            assert not any(self._may_take_effect(sent, action) for sent in self.sent), "asked twice"
            if isinstance(action, Resize):
                balloon = self.known[action.node].balloon
                assert balloon is not None
                assert action.size != balloon.desired, "asked for what is asked already"
            self.sent.append(Sent(action))
        assert self.scheduler.finished or self.scheduler.wake is not None, "waits for nothing"

    def _may_take_effect(self, sent: Sent, action: Action) -> bool:
        """It was not told as lost, and facts do not show that it comes too late."""
        if sent.given_up or sent.action.node != action.node:
            return False
        if isinstance(sent.action, SetLimit):  # two runs may set one limit; each sets it once at a time
            return self.alone and self.known[action.node].limit != sent.action.limit
        balloon = self.known[action.node].balloon
        return balloon is not None and balloon.resource_version == sent.action.resource_version

    def deliver(self, sent: Sent, *, answer_lost: bool = False) -> None:
        """One at a time for a node. Of several, only what became of the last counts: the others had come too late."""
        waiting = [other for other in self.sent if other.action.node == sent.action.node and not other.given_up]
        sent = sent if sent.given_up else waiting[0]
        self.sent.remove(sent)
        result = self.world.do(sent.action)
        if sent.given_up or waiting != [sent]:
            return
        if answer_lost or result != OK:
            unknown = answer_lost or result == CONFLICT
            self.scheduler.note_refusal(sent.action.node, f"the server says {result}", again=unknown)

    def hang(self, sent: Sent) -> None:
        """It may still be carried out, long after nobody waits for its answer."""
        if [other for other in self.sent if other.action.node == sent.action.node and not other.given_up] == [sent]:
            sent.given_up = True
            self.scheduler.note_refusal(sent.action.node, "no answer", again=True)


@dataclass
class Truth:
    """What every node may promise, at the worst, by what is and by what is under way; and what that was allowed to be."""

    world: World
    runs: list[Run]
    # Two runs without a Lease hold no sums; what is left then is that no node goes beyond both what it had and its target.
    sums: bool = True
    most_open: dict[str, Resources] = field(default_factory=dict)
    # What a host lacks that no move has taken from it: from the start, or since a balloon was lost.
    promise_over: dict[str, Resources] = field(default_factory=dict)
    limits_over: dict[str, Resources] = field(default_factory=dict)
    limit_over: dict[str, Resources] = field(default_factory=dict)  # of nodes
    pods_over: dict[str, Resources] = field(default_factory=dict)  # of nodes: what pods have beyond the limit
    unknown_losses: dict[str, Resources] = field(default_factory=dict)  # open, as it was before

    def open(self, name: str) -> Resources:
        kubelet = self.world.kubelets[name]
        written = kubelet.written
        sizes = [NONE] if written is None else [written.spec, kubelet.allocated or NONE]
        sizes += [kubelet.seen[1]] if kubelet.seen is not None else []
        now = None if written is None else f"{written.name}.{written.version}"
        for action in (sent.action for run in self.runs for sent in run.sent):
            if isinstance(action, Resize) and action.node == name and action.resource_version == now:
                sizes.append(action.size)
        held = sizes[0]
        for size in sizes[1:]:
            held = held.least(size)
        worst = kubelet.allocatable - held
        for run in self.runs:
            # A grant of which the run does not know may be taken back by it.
            if name in run.known:
                worst = worst.most(run.known[name].schedulable)
        return worst.least(self.unknown_losses[name]) if name in self.unknown_losses else worst

    def limits(self, name: str) -> tuple[Resources, Resources]:
        """The least and the most that it may be."""
        limit = self.world.kubelets[name].limit
        assert limit is not None
        low = high = limit
        for action in (sent.action for run in self.runs for sent in run.sent):
            if isinstance(action, SetLimit) and action.node == name:
                low, high = low.least(action.limit), high.most(action.limit)
        return low, high

    def check(self, *, allowed: bool = False) -> None:
        """`allowed`: what has just happened is nobody's move."""
        for name, most in self.most_open.items():
            assert self.open(name).fits_in(most), f"{name} may promise {self.open(name)}"
        if not self.sums:
            return
        hosts: dict[str, list[str]] = {}
        for name, kubelet in self.world.kubelets.items():
            hosts.setdefault(kubelet.host, []).append(name)
        for host, names in hosts.items():
            room = self.world.room(host)
            promised = total(self.open(name) for name in names)
            self._no_worse(self.promise_over, host, promised - room, allowed)
            limited = [name for name in names if self.world.kubelets[name].limit is not None]
            if limited:
                given = total(self.limits(name)[1] - self.world.kubelets[name].overhead for name in limited)
                given += total(self.open(name) for name in names if name not in limited)
                self._no_worse(self.limits_over, host, given - room, allowed)
            for name in limited:
                low = self.limits(name)[0] - self.world.kubelets[name].overhead + Resources(0, PAGE - 1)
                self._no_worse(self.limit_over, name, self.open(name) - low, allowed)
                self._no_worse(self.pods_over, name, total(self.world.kubelets[name].workloads) - low, allowed)

    @staticmethod
    def _no_worse(over: dict[str, Resources], key: str, now: Resources, allowed: bool) -> None:
        now = now.most(NONE)
        assert allowed or now.fits_in(over.get(key, NONE)), f"{key} promises {now} more than it has"
        over[key] = now


@dataclass
class Schedule:
    """Steps at random: `seed` says which. `faults` are steps that nobody wants."""

    world: World
    targets: dict[str, Resources]
    seed: int
    runs: int = 1
    now: float = 0.0
    losses: bool = True
    kills: bool = True
    trace: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        runs = [Run(self.world, self.targets, self.now, alone=self.runs == 1) for _run in range(self.runs)]
        self.truth = Truth(self.world, runs, sums=self.runs == 1)
        if not self.losses:
            for name, target in self.targets.items():
                node = self.world.facts(name)
                assert node is not None
                self.truth.most_open[name] = node.schedulable.most(node.allocatable - node.balloon_for(target))
        self.truth.check(allowed=True)
        self.names = list(self.world.kubelets)
        self.others = {
            name: one.written.spec
            for name, one in self.world.kubelets.items()
            if name not in self.targets and one.written
        }

    def step(self, faults: bool = True) -> None:
        run = self.random.choice(self.truth.runs)
        steps = [*self._usual(run), *(self._faults(run) if faults else [])]
        weights = [weight for weight, _step in steps]
        _weight, step = self.random.choices(steps, weights)[0]
        name = self.random.choice(self.names)
        self.trace.append(f"{self.now:.0f} {step.__name__} {name}")
        self.truth.check(allowed=step(name, run) is True)

    def _usual(self, run: Run) -> list[tuple[int, Callable[[str, Run], bool | None]]]:
        return [
            (20, self.decides),
            (16, self.watches),
            (16, self.delivers),
            (8, self.kubelet_sees),
            (8, self.kubelet_acts),
            (8, self.kubelet_actuates),
            (8, self.kubelet_reports),
            (8, self.kubelet_works),
            (8, self.time_passes),
        ]

    def _faults(self, run: Run) -> list[tuple[int, Callable[[str, Run], bool | None]]]:
        steps: list[tuple[int, Callable[[str, Run], bool | None]]] = [
            (2, self.answer_is_lost),
            (1, self.request_hangs),
            (4, self.pods_come),
            (2, self.pods_go),
            (1, self.kubelet_dies),
            (2, self.kubelet_starts),
            (1, self.ready_turns),
            (1, self.runtime_turns),
            (8 if self.world.rejects else 1, self.server_turns),
            (8 if self.world.limits_fail else 1, self.limits_turn),
            (1, self.is_infeasible),
            (2, self.daemonset_works),
        ]
        if self.kills:
            steps += [(1, self.run_is_killed)]
        if self.losses:
            steps += [(1, self.balloon_is_lost), (1, self.kubelet_is_wiped), (1, self.node_turns)]
        return steps

    def decides(self, name: str, run: Run) -> None:
        run.decide(self.now)

    def watches(self, name: str, run: Run) -> bool:
        run.watch(name)
        if self.world.kubelets[name].registered:
            self.truth.unknown_losses.pop(name, None)
        return True

    def delivers(self, name: str, run: Run) -> None:
        if run.sent:
            run.deliver(self.random.choice(run.sent))

    def answer_is_lost(self, name: str, run: Run) -> None:
        """A limit is set on this machine, where no answer is lost."""
        if resizes := [sent for sent in run.sent if isinstance(sent.action, Resize) and not sent.given_up]:
            run.deliver(self.random.choice(resizes), answer_lost=True)

    def request_hangs(self, name: str, run: Run) -> None:
        if resizes := [sent for sent in run.sent if isinstance(sent.action, Resize) and not sent.given_up]:
            run.hang(self.random.choice(resizes))

    def kubelet_sees(self, name: str, run: Run) -> None:
        self.world.kubelets[name].sees()

    def kubelet_acts(self, name: str, run: Run) -> None:
        self.world.kubelets[name].acts()

    def kubelet_actuates(self, name: str, run: Run) -> None:
        self.world.kubelets[name].actuates()

    def kubelet_reports(self, name: str, run: Run) -> None:
        self.world.kubelets[name].reports()

    def kubelet_works(self, name: str, run: Run) -> None:
        self.world.kubelets[name].works()

    def time_passes(self, name: str, run: Run) -> None:
        self.now += self.random.choice([0.1, 1.0, 5.0, 20.0, 40.0])

    def pods_come(self, name: str, run: Run) -> bool:
        kubelet = self.world.kubelets[name]
        size = kubelet.allocatable
        part = self.random.choice([2, 4, 8, 16])
        kubelet.takes(Resources(size.cpu // part, size.memory // part // MIB * MIB))
        return True

    def pods_go(self, name: str, run: Run) -> None:
        self.world.kubelets[name].workloads[:1] = []

    def kubelet_dies(self, name: str, run: Run) -> None:
        self.world.kubelets[name].dies()

    def kubelet_starts(self, name: str, run: Run) -> None:
        kubelet = self.world.kubelets[name]
        if not kubelet.alive:
            kubelet.starts(wiped=False)

    def kubelet_is_wiped(self, name: str, run: Run) -> bool:
        if self.world.kubelets[name].alive:
            return False
        self._loses(name, lambda: self.world.kubelets[name].starts(wiped=True))
        return True

    def ready_turns(self, name: str, run: Run) -> None:
        kubelet = self.world.kubelets[name]
        kubelet.ready = not kubelet.ready or self.random.random() < 0.5

    def runtime_turns(self, name: str, run: Run) -> None:
        kubelet = self.world.kubelets[name]
        kubelet.runtime = not kubelet.runtime or self.random.random() < 0.5

    def server_turns(self, name: str, run: Run) -> None:
        self.world.rejects ^= True

    def limits_turn(self, name: str, run: Run) -> None:
        self.world.limits_fail ^= True

    def is_infeasible(self, name: str, run: Run) -> None:
        kubelet = self.world.kubelets[name]
        if kubelet.allocated is not None:
            kubelet.most = kubelet.allocated if kubelet.most is None else None

    def balloon_is_lost(self, name: str, run: Run) -> bool:
        self._loses(name, self.world.kubelets[name].loses_balloon)
        return True

    def node_turns(self, name: str, run: Run) -> None:
        self.world.kubelets[name].registered ^= True

    def daemonset_works(self, name: str, run: Run) -> None:
        if self.world.kubelets[name].written is None and self.world.kubelets[name].registered:
            self.world.make_balloon(name)

    def run_is_killed(self, name: str, run: Run) -> bool:
        """What it had sent arrives before another may act, or never: a Lease outlives the request."""
        for sent in list(run.sent):
            if self.random.random() < 0.5:
                self.world.do(sent.action)
        self._begin_anew(run)
        return True

    def _loses(self, name: str, lose: Callable[[], None]) -> None:
        """Until the facts say so, a run that trusts the others' balloons does what it may."""
        before = self.truth.open(name)
        lose()
        self.truth.unknown_losses[name] = before

    def _begin_anew(self, run: Run) -> None:
        for kubelet in self.world.kubelets.values():
            kubelet.registered = True  # nodes that are to be moved, and are not there, are refused before a run
        self.truth.runs[self.truth.runs.index(run)] = Run(self.world, self.targets, self.now)
        self.truth.unknown_losses.clear()

    def all_finished(self) -> bool:
        return all(run.scheduler.finished for run in self.truth.runs)

    def repair(self) -> None:
        """Nothing fails any more, and the pods leave what the targets take."""
        self.world.rejects = self.world.limits_fail = False
        for name, kubelet in self.world.kubelets.items():
            kubelet.runtime = kubelet.registered = True
            kubelet.most = None
            kubelet.starts(wiped=False)
            kubelet.workloads.clear()
            if name in self.others:
                kubelet.loses_balloon()
                self.world.settle(name, self.others[name])
            elif kubelet.written is None:
                self.world.make_balloon(name)

    def come_to_rest(self) -> None:
        """What was under way when everything became well; and a new run."""
        run = self.truth.runs[0]
        self.truth.runs[1:] = []
        for kubelet in self.world.kubelets.values():
            kubelet.works()
        self._begin_anew(run)
        run = self.truth.runs[0]
        self.truth.sums = True
        self.truth.check(allowed=True)
        for _round in range(200):
            run.decide(self.now)
            self.truth.check()
            if run.scheduler.finished:
                break
            for sent in list(run.sent):
                run.deliver(sent)
                self.truth.check()
            for name, kubelet in self.world.kubelets.items():
                kubelet.works()
                run.watch(name)
                self.truth.check()
            self.now += 0.1
        outcomes = run.scheduler.outcomes
        assert run.scheduler.finished
        assert {one.outcome for one in outcomes.values()} == {DONE}, outcomes
