# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts and targets at random."""

from __future__ import annotations

import random

from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.resize_steps import limit_for
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import FLOOR, MIB, Resources, total
from tests.unit.balloon.model_kubelet import Kubelet, World

GIB = 2**30


def host(rng: random.Random, world: World, name: str, nodes: int, *, limits: bool, listed: int) -> dict[str, Resources]:
    """`nodes` kubelets on one host, of which the first `listed` get targets, which are returned. Sums are tight as often as not."""
    capacity = Resources(rng.choice([4000, 16000]), rng.choice([8, 64]) * GIB)
    names = [f"{name}-n{number}" for number in range(nodes)]
    overhead = Resources(rng.choice([0, 100, 137]), rng.choice([100 * MIB, 500_000_000, 0]))
    world.capacities[name] = capacity
    world.reserve[name] = Resources(overhead.cpu * nodes, overhead.memory * nodes) + Resources(rng.choice([0, 200]), 0)
    for one in names:
        world.kubelets[one] = Kubelet(name, capacity, capacity - overhead, version=rng.choice([(1, 33), (1, 37)]))
    before, after = (_divided(rng, world.room(name), nodes) for _time in range(2))
    start = rng.choice(["sized", "sized", "floor", "none"])
    for number, one in enumerate(names):
        kubelet = world.kubelets[one]
        # A node that is not listed keeps its part, else no run could ever bring the host within its room.
        part = after[number] if number >= listed else before[number]
        if start == "sized" or number >= listed:
            world.settle(one, (kubelet.allocatable - part).most(FLOOR))
        elif start == "floor":
            world.settle(one, FLOOR)
        for _pod in range(rng.choice([0, 3, 6])):
            kubelet.takes(Resources(part.cpu // 8, part.memory // 8))
        if limits and (number < listed or rng.random() < 0.5):
            facts = world.facts(one)
            assert facts is not None
            kubelet.limit = limit_for(facts, part) if start == "sized" or number >= listed else capacity
    return dict(list(zip(names, after, strict=True))[:listed])


def _divided(rng: random.Random, room: Resources, parts: int) -> list[Resources]:
    weights = [Resources(rng.randint(1, 9), rng.randint(1, 9)) for _part in range(parts)]
    whole = total(weights)
    found = [
        Resources(room.cpu * weight.cpu // whole.cpu, room.memory * weight.memory // whole.memory // MIB * MIB)
        for weight in weights
    ]
    assert total(found).fits_in(room)
    return found


def world_and_targets(seed: int, *, limits: bool | None = None) -> tuple[World, dict[str, Resources]]:
    rng = random.Random(seed)
    world = World({}, {}, {})
    targets: dict[str, Resources] = {}
    for number in range(rng.choice([1, 1, 2])):
        nodes = rng.randint(2, 4)
        with_limits = rng.random() < 0.5 if limits is None else limits
        targets |= host(
            rng, world, f"h{number}", nodes, limits=with_limits, listed=rng.choice([nodes, nodes, nodes - 1])
        )
    return world, targets
