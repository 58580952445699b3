# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From profile and options to processes, resources, controllers and flags. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from ..._core.text.errors import BallastError, Problems
from .api_resources import runtime_key
from .profile_options import (
    ALL_IN_ONE,
    API_SERVER,
    CONTROLLER_MANAGER,
    DEPLOYMENT_MODES,
    EMBEDDED,
    ETCD,
    ETCD_CHOICES,
    EXISTING,
    EXTERNAL,
    FULL,
    GENERIC,
    GENERIC_API_SERVER,
    HYPER_MINI,
    MINIMAL,
    PROFILES,
    SCHEDULER,
    SEPARATE,
    Choice,
    Composition,
    Flag,
    default_deployment_mode,
    default_etcd,
)
from .resource_dependencies import (
    CONTROLLERS,
    FLOW_CONTROL,
    GENERIC_CONTROLLERS,
    OFF_BY_DEFAULT,
    SCHEDULER_NEEDS,
    controllers,
)
from .rules import Case, find_violations

__all__ = (
    "ALL_IN_ONE",
    "API_SERVER",
    "CONTROLLER_MANAGER",
    "EMBEDDED",
    "ETCD",
    "ETCD_CHOICES",
    "EXISTING",
    "EXTERNAL",
    "FULL",
    "GENERIC",
    "GENERIC_API_SERVER",
    "HYPER_MINI",
    "MINIMAL",
    "PROFILES",
    "SCHEDULER",
    "SEPARATE",
    "DEPLOYMENT_MODES",
    "Choice",
    "Composition",
    "Flag",
    "compose",
    "default_etcd",
    "default_deployment_mode",
    "find_problems",
)

_QUOTA = "resourcequota-controller"
# The minor version in which the quota of device classes is counted by default and can still be switched off.
_COUNTED_DEVICES = 36


def find_problems(choice: Choice) -> list[BallastError]:
    """Every reason why a control plane of this choice cannot become ready."""
    return find_violations(Case(choice))


def compose(choice: Choice) -> Composition:
    """Raises Problems, with all reasons, when the choice cannot become ready. Equal choices give equal results."""
    case = Case(choice)
    Problems.raise_if(find_violations(case))
    running = _controllers(case)
    left_out = _left_out(case, running)
    processes = tuple(name for name in _processes(case) if name not in left_out)
    flags = {
        case.server: [
            *_api_server(case),
            *(_all_in_one(case, running) if choice.deployment_mode == ALL_IN_ONE else []),
        ],
        CONTROLLER_MANAGER: _controller_manager(case, running),
    }
    full = choice.profile == FULL
    return Composition(
        processes=processes,
        left_out=left_out,
        resources=tuple(sorted(case.served - case.promised if full else case.served)),
        everything_served=full,
        removed=tuple(sorted(case.removed & case.promised)) if full else (),
        controllers=running,
        flags={process: tuple(flags.get(process, ())) for process in processes},
    )


def _processes(case: Case) -> tuple[str, ...]:
    etcd = (ETCD,) if case.choice.etcd == EXTERNAL else ()
    if case.choice.deployment_mode == ALL_IN_ONE:
        return (*etcd, HYPER_MINI)
    pods = (SCHEDULER,) if case.choice.profile == FULL else ()
    return (*etcd, case.server, CONTROLLER_MANAGER, *pods)


def _left_out(case: Case, running: tuple[str, ...]) -> dict[str, str]:
    """Processes of the profile that are left out because they would do nothing, with the reason."""
    reasons = {}
    if case.choice.deployment_mode != ALL_IN_ONE and not running:
        reasons[CONTROLLER_MANAGER] = "controllers.remove leaves it none"
    missing = [name for name in SCHEDULER_NEEDS if name in case.removed]
    if case.choice.profile == FULL and missing:
        reasons[SCHEDULER] = f"it places no pod without {', '.join(missing)}"
    return reasons


def _controllers(case: Case) -> tuple[str, ...]:
    """The controllers of the profile whose resources are served, changed by the options; sorted."""
    if case.choice.profile == FULL:
        usual = controllers(case.minor).difference(OFF_BY_DEFAULT)
    else:
        usual = frozenset(GENERIC_CONTROLLERS)
    able = {name for name in usual if not case.list_unserved(CONTROLLERS[name])}
    return tuple(sorted((able | set(case.choice.controllers_add)) - set(case.choice.controllers_remove)))


def _api_server(case: Case) -> Iterator[Flag]:
    if case.choice.deployment_mode != ALL_IN_ONE:  # hyper-mini has a flag with the resources
        yield from _runtime_config(case)
    yield from _gates(case, case.served)
    if case.list_unserved(FLOW_CONTROL):
        yield Flag("enable-priority-and-fairness", "false", "the resources that it is configured by are not served")
    yield from _admission(case)


def _runtime_config(case: Case) -> Iterator[Flag]:
    """Resources to serve beyond the server's defaults, and defaults not to serve."""
    for name in sorted(case.served):
        if not case.known[name].by_default:
            why = f"{_wanted_by(case, name)}; {case.choice.version} does not serve it by default"
            yield from (Flag("runtime-config", f"{key}=true", why) for key in case.known[name].keys)
    usual = {name: serving for name, serving in case.known.items() if serving.by_default}
    versions = sorted({version for serving in usual.values() for version in serving.group_versions})
    for version in versions:
        here = [name for name, serving in sorted(usual.items()) if version in serving.group_versions]
        off = [name for name in here if name not in case.served]
        if off == here:
            yield Flag(
                "runtime-config", f"{runtime_key(version)}=false", f"{', '.join(off)}: {_unwanted_by(case, off)}"
            )
            continue
        for name in off:
            resource = name.partition(".")[0]
            yield Flag("runtime-config", f"{runtime_key(version)}/{resource}=false", _unwanted_by(case, [name]))


def _wanted_by(case: Case, name: str) -> str:
    return f"profile {case.choice.profile} promises it" if name in case.promised else "resources.add"


def _unwanted_by(case: Case, names: Iterable[str]) -> str:
    taken = case.removed.intersection(names)
    return "resources.remove" if taken else f"not promised by profile {case.choice.profile}"


def _gates(case: Case, resources: Iterable[str]) -> Iterator[Flag]:
    gates = {case.known[name].gate: name for name in sorted(resources, reverse=True) if name in case.known}
    yield from (
        Flag("feature-gates", f"{gate}=true", f"{name} is not there without it")
        for gate, name in sorted(gates.items())
        if gate
    )


def _admission(case: Case) -> Iterator[Flag]:
    """Disables plugins whose resources are not served, as the server would wait for them; then the options."""
    idle = [
        (case.idle(plugin), name)
        for name, plugin in case.plugins.items()
        if plugin.on_by_default(case.choice.profile) and case.idle(plugin)
    ]
    for missing, group in groupby(sorted(idle), key=lambda row: row[0]):
        names = [name for _missing, name in group if name not in case.choice.admission_disable]
        if names:
            yield Flag("disable-admission-plugins", ",".join(names), f"not served: {', '.join(missing)}")
    for option, plugins in (("enable", case.choice.admission_enable), ("disable", case.choice.admission_disable)):
        if plugins:
            yield Flag(f"{option}-admission-plugins", ",".join(sorted(set(plugins))), f"admission.{option}")


def _all_in_one(case: Case, running: tuple[str, ...]) -> list[Flag]:
    why = f"exactly what profile {case.choice.profile} and the options come to"
    return [
        Flag("crds", str(case.choice.crds).lower(), "crds"),
        Flag("aggregation", str(case.choice.aggregation).lower(), "aggregation"),
        Flag("resources", ",".join(sorted(case.served)), why),
        Flag("controllers", ",".join(running), "those whose resources are served, as controllers changes them"),
    ]


def _controller_manager(case: Case, running: tuple[str, ...]) -> list[Flag]:
    needed = [name for controller in running for name in CONTROLLERS.get(controller, ())]
    return [*_controllers_flags(case, running), *_gates(case, set(needed) & case.served), *_quota_flags(case, running)]


def _controllers_flags(case: Case, running: tuple[str, ...]) -> Iterator[Flag]:
    if case.choice.profile != FULL:
        yield Flag("controllers", ",".join(running), "those whose resources are served, as controllers changes them")
        return
    changes = list(_changes(case))
    if changes:
        yield Flag("controllers", "*", "all that are on by default")
        yield from changes


def _changes(case: Case) -> Iterator[Flag]:
    """How the controllers of profile full differ from those that are on by default."""
    removed = set(case.choice.controllers_remove)
    usual = controllers(case.minor).difference(OFF_BY_DEFAULT, removed)
    for name in sorted(usual):
        missing = [need for need in CONTROLLERS[name] if need in case.removed]
        if missing:
            yield Flag("controllers", f"-{name}", f"not served: {', '.join(missing)}")
    yield from (Flag("controllers", f"-{name}", "controllers.remove") for name in sorted(removed))
    yield from (Flag("controllers", name, "controllers.add") for name in sorted(set(case.choice.controllers_add)))


def _quota_flags(case: Case, running: tuple[str, ...]) -> Iterator[Flag]:
    if case.choice.profile != FULL and case.minor == _COUNTED_DEVICES and _QUOTA in running:
        why = "the quota controller would ask again and again for device classes, which are not served"
        yield Flag("feature-gates", "DRAExtendedResource=false", why)
