# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a choice of profile and options comes to: processes, resources, controllers, and the flags that follow. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .._core.errors import BallastError, Problems

FULL, GENERIC, MINIMAL, HYPER_MINI = "full", "generic", "minimal", "hyper-mini"
PROFILES = (FULL, GENERIC, MINIMAL, HYPER_MINI)
SEPARATE, ALL_IN_ONE = "separate", "all_in_one"
SHAPES = (SEPARATE, ALL_IN_ONE)
EMBEDDED, EXTERNAL, EXISTING = "embedded", "external", "existing"
ETCD_CHOICES = (EMBEDDED, EXTERNAL, EXISTING)

# Programs, which are also the names of processes.
ETCD = "etcd"
API_SERVER = "kube-apiserver"
GENERIC_API_SERVER = "generic-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"


@dataclass(frozen=True)
class Choice:
    """The options of a control plane that decide what runs and what is served, as the user gave them.

    `version` is X.Y.Z. Resources are written `configmaps`, `leases.coordination.k8s.io` or `*.GROUP`;
    controllers and admission plugins as the programs' --help has them. `shape` and `etcd` are never empty:
    `default_shape` and `default_etcd` say what stands for an option that was not given.
    """

    profile: str
    version: str
    shape: str
    crds: bool
    aggregation: bool
    etcd: str
    resources_add: tuple[str, ...] = ()
    resources_remove: tuple[str, ...] = ()
    controllers_add: tuple[str, ...] = ()
    controllers_remove: tuple[str, ...] = ()
    admission_enable: tuple[str, ...] = ()
    admission_disable: tuple[str, ...] = ()


@dataclass(frozen=True)
class Flag:
    """`--name=value` of a process; `why` is one line for people."""

    name: str
    value: str
    why: str


@dataclass(frozen=True)
class Composition:
    """What a choice comes to.

    `processes` are programs in the order of starting. `resources` are the native resources promised, sorted; of
    profile full it is empty, `everything_served` is true and `removed` says what of everything is missing.
    `flags` has an entry for each process, maybe empty: what follows from the choice, not paths, ports and certificates.
    """

    processes: tuple[str, ...]
    resources: tuple[str, ...]
    everything_served: bool
    removed: tuple[str, ...]
    controllers: tuple[str, ...]
    flags: Mapping[str, tuple[Flag, ...]]


def default_shape(profile: str) -> str:
    return ALL_IN_ONE if profile == HYPER_MINI else SEPARATE


def default_etcd(shape: str) -> str:
    return EMBEDDED if shape == ALL_IN_ONE else EXTERNAL


def problems(choice: Choice) -> list[BallastError]:
    """Everything for which the choice cannot become a plane that is ready, each with the reason."""
    return []


def compose(choice: Choice) -> Composition:
    """Problems, with all of them, when the choice cannot become ready."""
    Problems.raise_if(problems(choice))
    if choice.shape == ALL_IN_ONE:
        processes: tuple[str, ...] = (HYPER_MINI,)
    elif choice.profile == FULL:
        processes = (API_SERVER, CONTROLLER_MANAGER, SCHEDULER)
    else:
        processes = (GENERIC_API_SERVER, CONTROLLER_MANAGER)
    if choice.etcd == EXTERNAL:
        processes = (ETCD, *processes)
    return Composition(
        processes=processes,
        resources=(),
        everything_served=choice.profile == FULL,
        removed=(),
        controllers=(),
        flags={process: () for process in processes},
    )
