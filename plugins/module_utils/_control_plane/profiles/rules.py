# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of rules: which choices cannot become a ready control plane, and why. Pure.

Rules about readiness were tried with the binaries of 1.37.1: such a control plane stays unready, or a process exits at its
start. Other rules refuse what would run and have no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Callable

from ..._core.text.errors import BallastError
from .api_resources import (
    API_SERVICES,
    CRDS,
    NEWEST_KNOWN,
    OLDEST_KNOWN,
    ApiResource,
    expand_pattern,
    known_resources,
    promised_resources,
)
from .messages import MESSAGES
from .profile_options import (
    ALL_IN_ONE,
    API_SERVER,
    EMBEDDED,
    FULL,
    GENERIC,
    GENERIC_API_SERVER,
    HYPER_MINI,
    SEPARATE,
    Choice,
)
from .resource_dependencies import (
    CONTROLLERS,
    GENERIC_CONTROLLERS,
    PAIRED_RESOURCES,
    Plugin,
    controllers,
    plugins,
    required_resources,
)

Fields = Mapping[str, str]


@dataclass(frozen=True)
class Case:
    """A choice, with its patterns expanded and the tables of its version."""

    choice: Choice

    @cached_property
    def minor(self) -> int:
        """37 of version 1.37.1."""
        return int(self.choice.version.split(".")[1])

    @property
    def table_is_whole(self) -> bool:
        """Whether the tables have every plugin and controller of the version."""
        return OLDEST_KNOWN <= self.minor <= NEWEST_KNOWN

    @property
    def server(self) -> str:
        """The program that serves the API."""
        if self.choice.deployment_mode == ALL_IN_ONE:
            return HYPER_MINI
        return API_SERVER if self.choice.profile == FULL else GENERIC_API_SERVER

    @cached_property
    def known(self) -> Mapping[str, ApiResource]:
        """All resources, by name, that the profile's API server can serve in this version."""
        return known_resources(self.choice.profile, self.minor)

    @cached_property
    def promised(self) -> frozenset[str]:
        """The names of the resources that the profile serves when nothing is added or removed."""
        return promised_resources(self.choice.profile, self.minor)

    @cached_property
    def added(self) -> frozenset[str]:
        return self._meant(self.choice.resources_add)

    @cached_property
    def removed(self) -> frozenset[str]:
        return self._meant(self.choice.resources_remove)

    @cached_property
    def served(self) -> frozenset[str]:
        """The names of the resources that the control plane would serve."""
        switches = {CRDS: self.choice.crds, API_SERVICES: self.choice.aggregation}
        off = {name for name, on in switches.items() if not on}
        return (self.promised | self.added) - self.removed - off

    @cached_property
    def plugins(self) -> Mapping[str, Plugin]:
        return plugins(self.minor)

    @cached_property
    def gates(self) -> frozenset[str]:
        """The feature gates that the served resources need."""
        return frozenset(self.known[name].gate for name in self.served) - {""}

    def idle(self, plugin: Plugin) -> tuple[str, ...]:
        """The resources for which an enabled plugin would wait, or without which it has no effect."""
        return () if plugin.gate and plugin.gate not in self.gates else self.list_unserved(plugin.needs)

    def list_unserved(self, needs: Iterable[str]) -> tuple[str, ...]:
        """Those of `needs`, in their order, that the control plane would not serve."""
        return tuple(name for name in needs if name not in self.served)

    def _meant(self, patterns: Iterable[str]) -> frozenset[str]:
        return frozenset(
            name for pattern in patterns for name in expand_pattern(pattern, self.known, served=self.promised)
        )


@dataclass(frozen=True)
class Rule:
    """`breaches` gives the fields of the message `id` for each place where a case breaks it."""

    id: str
    breaches: Callable[[Case], Iterable[Fields]]


def find_violations(case: Case) -> list[BallastError]:
    """An error for each place where the case breaks a rule, in the order of RULES. Empty for a usable choice."""
    return [MESSAGES.error(rule.id, **fields) for rule in RULES for fields in rule.breaches(case)]


def _version(case: Case) -> Iterator[Fields]:
    if case.choice.profile != FULL and case.minor < OLDEST_KNOWN:
        yield {"profile": case.choice.profile, "version": case.choice.version, "oldest": f"1.{OLDEST_KNOWN}"}


_MODE_REASONS = {
    (FULL, ALL_IN_ONE): ("pods and nodes need kube-apiserver and kube-scheduler", "set deployment_mode to separate"),
    (HYPER_MINI, SEPARATE): (
        "it is one process by its nature",
        "set deployment_mode to all_in_one, or profile to generic",
    ),
}


def _deployment_mode(case: Case) -> Iterator[Fields]:
    profile, mode = case.choice.profile, case.choice.deployment_mode
    if (profile, mode) in _MODE_REASONS:
        reason, remedy = _MODE_REASONS[(profile, mode)]
        yield {"profile": profile, "mode": mode, "reason": reason, "remedy": remedy}


def _separate_with(unwanted: Callable[[Choice], bool]) -> Callable[[Case], Iterator[Fields]]:
    """A rule for choices that only hyper-mini supports."""

    def breaches(case: Case) -> Iterator[Fields]:
        if case.choice.deployment_mode == SEPARATE and unwanted(case.choice):
            yield {"mode": SEPARATE}

    return breaches


def _unknown_resources(case: Case) -> Iterator[Fields]:
    program = {"program": case.server, "version": case.choice.version}
    for option, patterns in (("add", case.choice.resources_add), ("remove", case.choice.resources_remove)):
        for pattern in sorted(set(patterns)):
            if not expand_pattern(pattern, case.known, served=case.promised):
                yield {"option": f"resources.{option}", "value": pattern, **program}


def _resources_twice(case: Case) -> Iterator[Fields]:
    yield from ({"value": name} for name in sorted(case.added & case.removed))


def _fixed_resources(case: Case) -> Iterator[Fields]:
    switches = {CRDS: "crds", API_SERVICES: "aggregation"}
    reasons = required_resources(case.choice.profile, case.minor)
    for name in sorted(case.removed):
        if name in switches:
            reason = "there is an option of its own for it"
            yield {
                "value": name,
                "reason": reason,
                "remedy": f"set {switches[name]} to false, with deployment_mode: all_in_one",
            }
        elif name in reasons:
            pods = (
                ""
                if name in required_resources(GENERIC, case.minor)
                else "; a control plane without it is one of profile generic"
            )
            yield {"value": name, "reason": reasons[name], "remedy": f"leave it served{pods}"}


def _resources_alone(case: Case) -> Iterator[Fields]:
    for row in PAIRED_RESOURCES:
        if row.since <= case.minor and row.resource in case.served and case.list_unserved([row.other]):
            yield {"value": row.resource, "other": row.other, "reason": row.reason}


def _unknown_plugins(case: Case) -> Iterator[Fields]:
    if case.choice.profile == FULL and not case.table_is_whole:
        return  # the preflight reads the program's --help instead
    for option, names in (("enable", case.choice.admission_enable), ("disable", case.choice.admission_disable)):
        for name in sorted(set(names) - case.plugins.keys()):
            version = case.choice.version
            yield {"option": f"admission.{option}", "value": name, "version": version, "program": case.server}


def _plugins_twice(case: Case) -> Iterator[Fields]:
    yield from _in_both(case.choice.admission_enable, case.choice.admission_disable)


def _unusable_plugins(case: Case) -> Iterator[Fields]:
    for plugin in _enabled_plugins(case):
        if plugin.unusable:
            yield {"value": plugin.name, "reason": plugin.unusable}


def _needy_plugins(case: Case) -> Iterator[Fields]:
    for plugin in _enabled_plugins(case):
        missing = case.list_unserved(plugin.needs)
        if missing:
            yield {"value": plugin.name, "missing": ", ".join(missing)}


def _required_plugins(case: Case) -> Iterator[Fields]:
    if case.choice.profile == FULL and "NodeRestriction" in case.choice.admission_disable:
        yield {
            "value": "NodeRestriction",
            "reason": "authorization of nodes trusts that a kubelet changes only its own",
        }


def _unknown_controllers(case: Case) -> Iterator[Fields]:
    if case.choice.profile == FULL and not case.table_is_whole:
        return  # the preflight reads the program's --help instead
    for option, names in (("add", case.choice.controllers_add), ("remove", case.choice.controllers_remove)):
        for name in sorted(set(names) - controllers(case.minor)):
            yield {"option": f"controllers.{option}", "value": name, "version": case.choice.version}


def _controllers_twice(case: Case) -> Iterator[Fields]:
    yield from _in_both(case.choice.controllers_add, case.choice.controllers_remove)


def _needy_controllers(case: Case) -> Iterator[Fields]:
    for name in sorted(set(case.choice.controllers_add)):
        missing = case.list_unserved(CONTROLLERS.get(name, ()))
        if missing:
            yield {"value": name, "missing": ", ".join(missing)}


def _foreign_controllers(case: Case) -> Iterator[Fields]:
    if case.choice.deployment_mode == ALL_IN_ONE:
        names = set(case.choice.controllers_add) & controllers(case.minor)
        yield from ({"value": name} for name in sorted(names.difference(GENERIC_CONTROLLERS)))


def _enabled_plugins(case: Case) -> list[Plugin]:
    return [case.plugins[name] for name in sorted(set(case.choice.admission_enable)) if name in case.plugins]


def _in_both(first: Iterable[str], other: Iterable[str]) -> Iterator[Fields]:
    yield from ({"value": name} for name in sorted(set(first) & set(other)))


RULES: tuple[Rule, ...] = (
    Rule("plane-profile-version", _version),
    Rule("plane-profile-shape", _deployment_mode),
    Rule("plane-crds-off", _separate_with(lambda choice: not choice.crds)),
    Rule("plane-aggregation-off", _separate_with(lambda choice: not choice.aggregation)),
    Rule("plane-etcd-embedded", _separate_with(lambda choice: choice.etcd == EMBEDDED)),
    Rule("plane-resource-unknown", _unknown_resources),
    Rule("plane-resource-twice", _resources_twice),
    Rule("plane-resource-fixed", _fixed_resources),
    Rule("plane-resource-pair", _resources_alone),
    Rule("plane-admission-unknown", _unknown_plugins),
    Rule("plane-admission-twice", _plugins_twice),
    Rule("plane-admission-unusable", _unusable_plugins),
    Rule("plane-admission-needs", _needy_plugins),
    Rule("plane-admission-required", _required_plugins),
    Rule("plane-controller-unknown", _unknown_controllers),
    Rule("plane-controller-twice", _controllers_twice),
    Rule("plane-controller-needs", _needy_controllers),
    Rule("plane-controller-shape", _foreign_controllers),
)
