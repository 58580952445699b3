# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command lines of kube-controller-manager and kube-scheduler. Pure."""

from __future__ import annotations

from .certificates import CA
from .desired import ControlPlane
from .flags import Flags, delegated, flags, kubeconfigs, listening, pair
from .pki import key_path
from .profiles import CONTROLLER_MANAGER, SCHEDULER

_ALONE = ("leader-elect", "false")
_NO_PROFILING = ("profiling", "false")


def controller_manager(plane: ControlPlane) -> Flags:
    for_pods = [
        *flags("service_cidr", ("service-cluster-ip-range", plane.service_cidr)),
        *flags("node networks are given by who makes the nodes", ("allocate-node-cidrs", "false")),
        *flags("name", ("cluster-name", plane.mark)),
        *flags("it makes this directory; the default is outside of ours", ("flex-volume-plugin-dir", flex_dir(plane))),
    ]
    return [
        *_client(plane, CONTROLLER_MANAGER, port="controller_manager_port"),
        *flags("each controller may do what it needs, and no more", ("use-service-account-credentials", "true")),
        # Each of about 50 controllers fetches credentials at the start: with the default limits that takes 5 s.
        *flags("a start asks much at once", ("kube-api-qps", "200"), ("kube-api-burst", "400")),
        *flags("signs tokens that Secrets hold", ("service-account-private-key-file", plane.pki("sa.key"))),
        *flags("what each namespace is told of the API server", ("root-ca-file", plane.pki(CA))),
        *flags(
            "signs certificates that were approved",
            ("cluster-signing-cert-file", plane.pki(CA)),
            ("cluster-signing-key-file", key_path(plane.pki(CA))),
        ),
        *(for_pods if plane.has_pods else []),
        *flags("no /debug/pprof", _NO_PROFILING),
    ]


def scheduler(plane: ControlPlane) -> Flags:
    return [*_client(plane, SCHEDULER, port="scheduler_port"), *flags("no /debug/pprof", _NO_PROFILING)]


def flex_dir(plane: ControlPlane) -> str:
    return plane.at("flexvolume")


def _client(plane: ControlPlane, component: str, *, port: str) -> Flags:
    return [
        *kubeconfigs(plane, component),
        *listening(plane, port),
        *pair(
            plane.pki(f"{component}.crt"),
            "what it serves, and shows, health and metrics with",
            certificate="tls-cert-file",
            key="tls-private-key-file",
        ),
        *delegated(plane),
        *flags("one of it", _ALONE),
    ]
