# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The words of profiles: what can be chosen, and what a choice comes to. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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

    `processes` are programs in the order of starting; `left_out` has those that the profile would have, with the reason.
    `resources` are the native resources promised, sorted. Of profile full it is empty, `everything_served` is true,
    and `removed` says what is missing of everything; its `controllers` are empty too: what the program runs by itself,
    less what its flags say.
    `flags` has an entry for each process, maybe empty: what follows from the choice, not paths, ports and certificates.
    Flags of one name are lists, and there is one for each reason: together they mean their values with commas between.
    """

    processes: tuple[str, ...]
    left_out: Mapping[str, str]
    resources: tuple[str, ...]
    everything_served: bool
    removed: tuple[str, ...]
    controllers: tuple[str, ...]
    flags: Mapping[str, tuple[Flag, ...]]


def default_shape(profile: str) -> str:
    return ALL_IN_ONE if profile == HYPER_MINI else SEPARATE


def default_etcd(shape: str) -> str:
    return EMBEDDED if shape == ALL_IN_ONE else EXTERNAL
