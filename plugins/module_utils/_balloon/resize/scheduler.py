# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From facts to actions, until each node has an outcome. No I/O, and no clock except `now`.

    scheduler = ResizeScheduler(targets, grow_timeout=30.0)
    while not scheduler.finished:
        for action in scheduler.decide(fleet, now):
            carry it out; on a refusal scheduler.note_refusal(action.node, text, again=...)
        wait for a change of facts, or until scheduler.wake

What becomes of a node:

                        +-- no kubelet, no balloon, in time ---> failed
                        +-- no resize in this version ---------> rejected
                        +-- no room, and nobody to give it ----> blocked
        at its target   |
    done <---------- waiting <------ settled, or a conflict -----+
                        |                                        |
                        +-- next step (`resize_steps.py`) --> asked
                                                                 |
              rejected, or failed for a limit <--- refused ------+
              failed <---------- no answer of a kubelet in time -+
              put back: reverted <--- deferred for grow_timeout -+
              put back: infeasible <----------- infeasible ------+

An action counts from the time of its decision, observed or not: it is under way until the facts show another resourceVersion of
the pod, or another limit. So two nodes never get the same capacity, and an action with an unknown result can be repeated: a
PATCH with an old resourceVersion has no effect.

Nothing is kept between runs. A request that an earlier run left under way is judged as if it had been made now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Optional

from ..cluster.facts import Fleet, Node, Outcome
from ..sizing.resources import NONE, Resources
from .node_resize import BUSY, FREE, GROW, OVER, REPEAT, REVERT, SHRINK, Action, NodeResize, Resize, SetLimit
from .resize_steps import has_room_for, steps_of_host
from .texts import blocked_error

__all__ = ["GROW", "REVERT", "SHRINK", "Action", "Resize", "SetLimit", "ResizeScheduler"]


class ResizeScheduler:
    """`targets`: the requested ones. `outcomes`: of nodes that have finished. `wake`: when to decide again even if nothing
    changes; None for never."""

    def __init__(self, targets: Mapping[str, Resources], *, grow_timeout: float) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.wake: Optional[float] = None
        self.targets = dict(targets)
        self._resizes = {name: NodeResize(name, target, grow_timeout=grow_timeout) for name, target in targets.items()}
        # A machine that restarts gives its nodes a new host, one after the other. Within a run a node keeps its host.
        self._hosts: dict[str, str] = {}
        self._unreserved: dict[str, Resources] = {}
        self._nodes: dict[str, Node] = {}  # as last seen
        self._wakes: dict[str, float] = {}  # by host: when to decide again
        self._seen: Optional[Fleet] = None  # at the last decision
        self._refused: set[str] = set()  # nodes, since the last decision

    @property
    def finished(self) -> bool:
        """Whether each node has an outcome."""
        return len(self.outcomes) == len(self._resizes)

    def decide(self, fleet: Fleet, now: float) -> tuple[Action, ...]:
        """The actions to carry out now. Call it after every change of facts, after a refusal, and at `wake`.

        `now` is from a monotonic clock. Actions under way are not decided twice. Facts must at least be as new as the end of the last
        run; after that each node's facts may be late.
        """
        members = self._group_by_host(fleet)
        due = self._due_hosts(fleet, members, now)
        actions: list[Action] = []
        for host, names in members.items():
            if host in due:
                actions += self._decide_for_host(host, names, fleet, now)
        self._seen = Fleet(dict(fleet.nodes), dict(fleet.capacities), dict(fleet.reserve))
        self._refused.clear()
        self._wakes = {host: wake for host, wake in self._wakes.items() if host in members}
        self.wake = min(self._wakes.values(), default=None)
        return tuple(actions)

    def note_refusal(self, node: str, text: str, *, again: bool) -> None:
        """Record that the last action of this node was not done. `again`: it conflicted, or its result is unknown; decide again.

        The result of an older action does not matter: the last one replaced it.
        """
        resize = self._resizes[node]
        resize.note_refusal(text, again=again)
        self._note_outcome(resize)
        self._refused.add(node)

    def _group_by_host(self, fleet: Fleet) -> dict[str, list[str]]:
        """Nodes by host. Nodes that the cluster lacks now stay with their last host: what they offered may still be in use."""
        self._nodes.update(fleet.nodes)
        members: dict[str, list[str]] = {}
        for name, node in self._nodes.items():
            members.setdefault(self._hosts.setdefault(name, node.host), []).append(name)
        never_seen = [name for name in self._resizes if name not in self._nodes]
        return {**members, "": never_seen} if never_seen else members

    def _due_hosts(self, fleet: Fleet, members: Mapping[str, Sequence[str]], now: float) -> set[str]:
        """The hosts that changed since the last decision: a fleet is large, and most changes concern one node."""
        seen = self._seen
        if seen is None:
            return set(members)
        hosts = {host for host, wake in self._wakes.items() if wake <= now}
        hosts |= {self._hosts.get(name, "") for name in self._refused}
        for name, node in fleet.nodes.items():
            last = seen.nodes.get(name)
            if last is not node and last != node:
                hosts.add(self._hosts[name])
        hosts |= {self._hosts[name] for name in seen.nodes if name not in fleet.nodes}
        return hosts

    def _decide_for_host(self, host: str, names: Iterable[str], fleet: Fleet, now: float) -> list[Action]:
        resizes = [self._resizes[name] for name in names if name in self._resizes]
        unreserved = self._least_unreserved(host, fleet)
        actions: list[Action] = []
        for resize in resizes:
            put_back = resize.look(fleet.nodes.get(resize.name), now)
            if put_back is not None:
                actions.append(resize.ask(put_back, now))
            self._note_outcome(resize)
        counted = [self._resizes[name].as_counted() if name in self._resizes else self._nodes[name] for name in names]
        nodes = [node for node in counted if node is not None]
        for resize in resizes:
            if resize.phase == REPEAT and resize.node is not None and has_room_for(resize.node, nodes, unreserved):
                actions += resize.repeat(now)
        free = {resize.name: resize.target for resize in resizes if resize.phase == FREE}
        for step in steps_of_host(nodes, unreserved, free, ()):
            actions.append(self._resizes[step.node].begin(step, now))
        if all(resize.phase != BUSY for resize in resizes):
            self._block(resizes, nodes, unreserved)
        self._wakes.pop(host, None)
        wakes = [resize.wake for resize in resizes if resize.wake is not None]
        if wakes:
            self._wakes[host] = min(wakes)
        return actions

    def _least_unreserved(self, host: str, fleet: Fleet) -> Resources:
        """The least value in this run; otherwise the reserve of a node that is away would count as free."""
        known = [self._unreserved[host]] if host in self._unreserved else []
        known += [fleet.unreserved(host)] if host in fleet.capacities else []
        self._unreserved[host] = known[0].least(known[-1]) if known else NONE
        return self._unreserved[host]

    def _block(self, resizes: Iterable[NodeResize], nodes: Sequence[Node], unreserved: Resources) -> None:
        """Called when nothing is under way on this host that could still free capacity."""
        for resize in resizes:
            if resize.phase != OVER and resize.node is not None:
                resize.block(blocked_error(resize.node, resize.target, nodes, unreserved, self.targets, self.outcomes))
                self._note_outcome(resize)

    def _note_outcome(self, resize: NodeResize) -> None:
        if resize.outcome is not None:
            self.outcomes[resize.name] = resize.outcome
