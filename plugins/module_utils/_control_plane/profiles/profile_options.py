# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of profiles, and the composition that follows from them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FULL, GENERIC, MINIMAL, HYPER_MINI = "full", "generic", "minimal", "hyper-mini"
PROFILES = (FULL, GENERIC, MINIMAL, HYPER_MINI)
SEPARATE, ALL_IN_ONE = "separate", "all_in_one"
DEPLOYMENT_MODES = (SEPARATE, ALL_IN_ONE)
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
    controllers and admission plugins as the programs' --help has them. `deployment_mode` and `etcd` are never empty:
    `default_deployment_mode` and `default_etcd` give the values of omitted options.
    """

    profile: str
    version: str
    deployment_mode: str
    crds: bool
    aggregation: bool
    etcd: str
    resources_add: tuple[str, ...] = ()
    resources_remove: tuple[str, ...] = ()
    controllers_add: tuple[str, ...] = ()
    controllers_remove: tuple[str, ...] = ()
    admission_enable: tuple[str, ...] = ()
    admission_disable: tuple[str, ...] = ()


GIVEN_GATES = "feature_gates"  # why a program has gates that the user gives


@dataclass(frozen=True)
class Flag:
    """`--name=value` of a process; `why` is one line for people."""

    name: str
    value: str
    why: str


@dataclass(frozen=True)
class Composition:
    """What follows from a choice.

    `processes` are binaries in the order of starting; `left_out` names processes that would do nothing, with the reason.
    `resources` are the promised native resources, sorted. In profile full they are only additions to the defaults,
    `everything_served` is true, and `removed` names the defaults that are not served.
    `flags` has an entry for each process, maybe empty: what follows from the choice, without paths, ports and certificates.
    A list flag may occur several times, once for each reason; the values add up.
    """

    processes: tuple[str, ...]
    left_out: Mapping[str, str]
    resources: tuple[str, ...]
    everything_served: bool
    removed: tuple[str, ...]
    controllers: tuple[str, ...]
    flags: Mapping[str, tuple[Flag, ...]]


def default_deployment_mode(profile: str) -> str:
    return ALL_IN_ONE if profile == HYPER_MINI else SEPARATE


def default_etcd(deployment_mode: str) -> str:
    return EMBEDDED if deployment_mode == ALL_IN_ONE else EXTERNAL
