# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From facts to actions, until each node has an outcome. No I/O, and no clock but the one it is told.

    steering = Steering(targets, grow_timeout=30.0)
    while not steering.finished:
        for action in steering.decide(fleet, now):
            carry it out; on a refusal steering.refused(action.node, text, again=...)
        wait for a change of facts, or until steering.wake

What becomes of a node:

                        +-- no kubelet, no balloon, in time ---> failed
                        +-- no resize in this version ---------> rejected
                        +-- no room, and nobody to give it ----> blocked
        at its target   |
    done <---------- waiting <------ settled, or a conflict -----+
                        |                                        |
                        +--- the next move (`moves.py`) ---> asked
                                                                 |
              rejected, or failed for a limit <--- refused ------+
              failed <---------- no answer of a kubelet in time -+
              put back: reverted <--- deferred for grow_timeout -+
              put back: infeasible <----------- infeasible ------+

What is asked counts from the moment on in which it is decided, whether it was seen or not: an action is under way until the
facts show another resourceVersion of the pod, or another limit. So two receivers never get the same room, and an action of
which nobody knows whether it was carried out can be repeated, since a PATCH with an old resourceVersion has no effect.

Nothing is kept between runs. What an earlier one left under way is judged as if it had been asked now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Optional

from .amount import NONE, Amount
from .course import BUSY, FREE, GROW, OVER, REPEAT, REVERT, SHRINK, Action, Course, Resize, SetLimit
from .facts import Fleet, Node, Outcome
from .moves import has_room_for, moves_of_host
from .steering_texts import blocked

__all__ = ["GROW", "REVERT", "SHRINK", "Action", "Resize", "SetLimit", "Steering"]


class Steering:
    """`targets`: what was asked for. `outcomes` of nodes that are through. `wake`: decide again at that time even if
    nothing changed; None for never."""

    def __init__(self, targets: Mapping[str, Amount], *, grow_timeout: float) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.wake: Optional[float] = None
        self.targets = dict(targets)
        self._courses = {name: Course(name, target, grow_timeout=grow_timeout) for name, target in targets.items()}
        # A machine that starts anew gives its nodes another host, one after the other. In one run a node stays where it was.
        self._hosts: dict[str, str] = {}
        self._rooms: dict[str, Amount] = {}
        self._nodes: dict[str, Node] = {}  # as last seen
        self._wakes: dict[str, float] = {}  # of hosts
        self._seen: Optional[Fleet] = None  # at the last decision
        self._refused: set[str] = set()  # nodes, since the last decision

    @property
    def finished(self) -> bool:
        return len(self.outcomes) == len(self._courses)

    def decide(self, fleet: Fleet, now: float) -> tuple[Action, ...]:
        """What is to be done now. Call it after every change of facts, after a refusal, and at `wake`.

        `now` is of a clock that only goes forward. What is under way is not asked for twice. Facts must be as new as the end
        of the last run at least; after that they may be late, node by node.
        """
        members = self._members(fleet)
        due = self._due(fleet, members, now)
        actions: list[Action] = []
        for host, names in members.items():
            if host in due:
                actions += self._steer(host, names, fleet, now)
        self._seen = Fleet(dict(fleet.nodes), dict(fleet.capacities), dict(fleet.reserve))
        self._refused.clear()
        self._wakes = {host: wake for host, wake in self._wakes.items() if host in members}
        self.wake = min(self._wakes.values(), default=None)
        return tuple(actions)

    def refused(self, node: str, text: str, *, again: bool) -> None:
        """What was asked of this node last was not done. `again`: it conflicted, or its fate is unknown; decide anew.

        What became of something older is of no interest: it was known to come too late when the last was asked.
        """
        course = self._courses[node]
        course.refused(text, again=again)
        self._note(course)
        self._refused.add(node)

    def _members(self, fleet: Fleet) -> dict[str, list[str]]:
        """The nodes of each host, with those that the cluster does not have now, at the host where they were.

        One that is registered anew was not away: what it may promise is promised still.
        """
        self._nodes.update(fleet.nodes)
        members: dict[str, list[str]] = {}
        for name, node in self._nodes.items():
            members.setdefault(self._hosts.setdefault(name, node.host), []).append(name)
        never_seen = [name for name in self._courses if name not in self._nodes]
        return {**members, "": never_seen} if never_seen else members

    def _due(self, fleet: Fleet, members: Mapping[str, Sequence[str]], now: float) -> set[str]:
        """The hosts on which anything is other than at the last decision: a fleet is large, and a change is of one node."""
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

    def _steer(self, host: str, names: Iterable[str], fleet: Fleet, now: float) -> list[Action]:
        courses = [self._courses[name] for name in names if name in self._courses]
        room = self._room(host, fleet)
        actions: list[Action] = []
        for course in courses:
            put_back = course.look(fleet.nodes.get(course.name), now)
            if put_back is not None:
                actions.append(course.ask(put_back, now))
            self._note(course)
        counted = [self._courses[name].counted() if name in self._courses else self._nodes[name] for name in names]
        nodes = [node for node in counted if node is not None]
        for course in courses:
            if course.phase == REPEAT and course.node is not None and has_room_for(course.node, nodes, room):
                actions += course.repeat(now)
        free = {course.name: course.target for course in courses if course.phase == FREE}
        for move in moves_of_host(nodes, room, free, ()):
            actions.append(self._courses[move.node].begin(move, now))
        if all(course.phase != BUSY for course in courses):
            self._block(courses, nodes, room)
        self._wakes.pop(host, None)
        wakes = [course.wake for course in courses if course.wake is not None]
        if wakes:
            self._wakes[host] = min(wakes)
        return actions

    def _room(self, host: str, fleet: Fleet) -> Amount:
        """The least that it was in this run: a node that is away takes what is reserved for it along."""
        found = [self._rooms[host]] if host in self._rooms else []
        found += [fleet.room(host)] if host in fleet.capacities else []
        self._rooms[host] = found[0].least(found[-1]) if found else NONE
        return self._rooms[host]

    def _block(self, courses: Iterable[Course], nodes: Sequence[Node], room: Amount) -> None:
        """Nothing is under way on this host that could still give room."""
        for course in courses:
            if course.phase != OVER and course.node is not None:
                course.block(blocked(course.node, course.target, nodes, room, self.targets, self.outcomes))
                self._note(course)

    def _note(self, course: Course) -> None:
        if course.outcome is not None:
            self.outcomes[course.name] = course.outcome
