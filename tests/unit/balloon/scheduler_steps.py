# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run of the scheduler over the model, a step at a time, and the sizes that its nodes have."""

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import Outcome
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.resize_steps import limit_for
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.scheduler import Action, Resize
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import MIB, Resources
from tests.unit.balloon.model_kubelet import Kubelet, World
from tests.unit.balloon.schedules import Run

CAPACITY = Resources(10_000, 10_240 * MIB)
ALLOCATABLE = Resources(9_900, 10_000 * MIB)
ROOM = CAPACITY - (CAPACITY - ALLOCATABLE) - (CAPACITY - ALLOCATABLE)


def size(cpu: int, memory: int) -> Resources:
    return Resources(cpu, memory * MIB)


SMALL, LARGE = size(2000, 2000), ROOM - size(2000, 2000)
HALF = Resources(ROOM.cpu // 2, ROOM.memory // 2)


def of(target: Resources) -> Resources:
    """The balloon for it."""
    return ALLOCATABLE - target


def world(*targets: Resources | None, limits: bool = False) -> World:
    """Nodes n0, n1, ... on one host with a reserve for two, that may promise so much; None has no balloon."""
    found = World({}, {"h": CAPACITY - ROOM}, {"h": CAPACITY})
    for number, target in enumerate(targets):
        name = f"n{number}"
        kubelet = found.kubelets[name] = Kubelet("h", CAPACITY, ALLOCATABLE)
        if target is not None:
            found.settle(name, of(target))
            facts = found.facts(name)
            assert facts is not None
            kubelet.limit = limit_for(facts, target) if limits else None
    return found


class Steps:
    """A run, a step at a time, with facts that are never late."""

    def __init__(self, world: World, *targets: Resources) -> None:
        self.world = world
        self.now = 0.0
        self.run = Run(world, {f"n{number}": target for number, target in enumerate(targets)}, self.now)

    @property
    def asked(self) -> list[Action]:
        return [sent.action for sent in self.run.sent]

    @property
    def outcomes(self) -> dict[str, Outcome]:
        return self.run.scheduler.outcomes

    def told(self, name: str = "n0") -> str:
        return self.outcomes[name].text

    def look(self, seconds: float = 0.0) -> None:
        """Decide, after so much time."""
        self.now += seconds
        for name in self.world.kubelets:
            self.run.watch(name)
        self.run.decide(self.now)

    def deliver(self) -> None:
        for sent in list(self.run.sent):
            self.run.deliver(sent)

    def work(self) -> None:
        for kubelet in self.world.kubelets.values():
            kubelet.works()

    def go(self) -> None:
        """Until there is nothing to do but wait."""
        for _round in range(20):
            self.deliver()
            self.work()
            self.look()

    def wait(self) -> float:
        """Until the time at which it wants to decide again. How long that was."""
        wake = self.run.scheduler.wake
        assert wake is not None
        seconds = wake - self.now
        self.look(seconds)
        return seconds


def sizes(actions: list[Action]) -> dict[str, Resources]:
    return {action.node: action.size for action in actions if isinstance(action, Resize)}
