# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node with a kube-proxy, in memory: what the modules of a rollout find there, do there and return, and what can go wrong.

Its watchdog is a part of it, so it goes back whether it is reached or not. Time is what `now` says: seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

# What becomes of one call.
FINE = "fine"
LOST_BEFORE = "lost before"  # the connection, and the module did not run
LOST_DURING = "lost during"  # the module was killed, and has undone what it did
LOST_AFTER = "lost after"  # the module ran, and its answer was lost
HANGS = "hangs"  # the same, and the connection says nothing until the limit of the call
GARBAGE = "garbage"  # the module ran, and something else was printed
REFUSES = "refuses"  # the module fails, and has undone what it did
BREAKS = "breaks"  # the module fails, and could not undo what it did
FATES = (FINE, LOST_BEFORE, LOST_DURING, LOST_AFTER, HANGS, GARBAGE, REFUSES, BREAKS)


def load(text: str) -> SimulatedNode:
    """A node as `asdict` and JSON have it."""
    row = json.loads(text)
    faults = row.pop("faults")
    return SimulatedNode(
        **row, faults=Faults(**{**faults, "fates": tuple(faults["fates"]), "gone": tuple(faults["gone"])})
    )


def dump(node: SimulatedNode) -> str:
    return json.dumps(asdict(node))


class ConnectionLost(Exception):
    pass


class NoAnswer(Exception):
    """Until the limit of the call."""


@dataclass
class Faults:
    """`fates` are of the first calls, in order, or of those from the change on; the others are fine. `gone` is when the node cannot be
    reached at all, or for how long after the change."""

    fates: tuple[str, ...] = ()
    from_change: bool = False
    gone: tuple[float, float] = (0.0, 0.0)
    gone_after_change: float = 0.0
    bad_audits: int = 0  # of so many audits the rules differ; they are right before the change
    slow: float = 1.0  # times the usual seconds of a change


@dataclass
class SimulatedNode:
    name: str
    mode: str = "iptables"
    change_seconds: float = 97.0
    read_seconds: float = 1.0
    faults: Faults = field(default_factory=Faults)
    previous_mode: Optional[str] = None
    armed_at: Optional[float] = None  # when the time for the confirmation began
    confirm_within: float = 0.0
    went_back: Optional[dict[str, Any]] = None
    calls: int = 0
    confirmed_after: Optional[float] = None  # seconds that the change waited
    was_changed: bool = False

    @property
    def is_armed(self) -> bool:
        return self.armed_at is not None

    def tick(self, now: float) -> None:
        """The watchdog."""
        if self.armed_at is not None and now > self.armed_at + self.confirm_within:
            self.went_back = {"at": now, "why": "the change was not confirmed", "steps": []}
            self._restore()

    def seconds(self, module: str, options: Mapping[str, Any]) -> float:
        """How long a call takes."""
        is_change = module == "kube_proxy" and options.get("state") != "confirmed"
        moves = is_change and self._target(options) != self.mode
        return self.change_seconds * self.faults.slow if moves else self.read_seconds

    def run(self, module: str, options: Mapping[str, Any], *, begun: float, now: float, check: bool = False) -> object:
        """What the call returns that was `begun` and ends `now`. ConnectionLost and NoAnswer as the names say."""
        self.tick(begun)
        if self.faults.gone[0] <= begun < self.faults.gone[1]:
            raise ConnectionLost(f"{self.name}: no route to host")
        fate = self._fate(module)
        if fate == LOST_BEFORE:
            raise ConnectionLost(f"{self.name}: connection refused")
        if fate == LOST_DURING:
            raise ConnectionLost(f"{self.name}: connection reset by peer")
        if fate == REFUSES:
            return self._failure(module, "refused")
        result = self._result(module, options, now, check=check)
        if fate == LOST_AFTER or self.faults.gone[0] < now < self.faults.gone[1]:
            raise ConnectionLost(f"{self.name}: broken pipe")
        if fate == HANGS:
            raise NoAnswer
        if fate == BREAKS:
            return self._failure(module, "left as it is")
        if fate == GARBAGE:
            return {
                "failed": True,
                "msg": "Module result deserialization failed.",
                "module_stdout": "Killed",
                "rc": 137,
            }
        return result

    def _failure(self, module: str, text: str) -> dict[str, Any]:
        return {"failed": True, "msg": f"{module} on {self.name}: {text}\n  do:    nothing", "id": "migrate-gate"}

    def _fate(self, module: str) -> str:
        if self.faults.from_change and self.calls == 0 and module != "kube_proxy":
            return FINE
        self.calls += 1
        return self.faults.fates[self.calls - 1] if self.calls <= len(self.faults.fates) else FINE

    def _result(self, module: str, options: Mapping[str, Any], now: float, *, check: bool) -> dict[str, Any]:
        if module == "kube_proxy_info":
            return self._info(options)
        if module == "kube_proxy_cleanup":
            return {
                "changed": False,
                "mode": self.mode,
                "artefacts": [],
                "connections": {"cut": 0, "kept": 0},
                "findings": [],
            }
        if module != "kube_proxy":
            raise ValueError(f"a simulated node has no module {module}")
        if options["state"] == "confirmed":
            changed = self.is_armed
            if self.armed_at is not None and not check:
                self.confirmed_after, self.armed_at = now - self.armed_at, None
            return {"changed": changed, "steps": [], "findings": [], **self._report()}
        return self._change(options, now, check=check)

    def _change(self, options: Mapping[str, Any], now: float, *, check: bool) -> dict[str, Any]:
        target = self._target(options)
        changed = target != self.mode or (options["state"] == "previous" and self.is_armed)
        title = f"kube-proxy in mode {target}"
        steps = [{"kind": "kube-proxy", "verb": "change", "title": title, "target": "config.conf"}] if changed else []
        plan = {"changed": changed, "steps": steps, "findings": []}
        if check:
            return plan
        if options["state"] == "previous":
            if changed:
                self._restore()
        elif changed:
            self.previous_mode, self.mode, self.went_back, self.was_changed = self.mode, target, None, True
            self.confirm_within = float(options.get("confirm_within", 0))
            self.armed_at = now if self.confirm_within else None
            if self.faults.gone_after_change:
                self.faults.gone = (now, now + self.faults.gone_after_change)
        return {**plan, **self._report()}

    def _info(self, options: Mapping[str, Any]) -> dict[str, Any]:
        differences = []
        if options.get("audit_rules") and self.was_changed and self.faults.bad_audits > 0:
            self.faults.bad_audits -= 1
            differences = ["tcp 10.96.0.10:53: no endpoint is reached"]
        return {
            "changed": False,
            "in_order": True,
            "reason": "",
            "residue": [],
            "preflight": [],
            "differences": differences,
            **self._report(),
        }

    def _report(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "deployment": "service",
            "service": "kube-proxy",
            "config_path": "/var/lib/kube-proxy/config.conf",
            "draining": None,
            "version": "v1.37.1",
            "node_name": self.name,
            "previous_mode": self.previous_mode,
            "armed": self.is_armed,
            "bridged": False,
            "went_back": self.went_back,
        }

    def _target(self, options: Mapping[str, Any]) -> str:
        if options.get("state") == "previous":
            return self.previous_mode or self.mode
        return str(options["mode"])

    def _restore(self) -> None:
        self.mode, self.armed_at = self.previous_mode or self.mode, None
        self.was_changed = False
