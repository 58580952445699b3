# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command lines of kube-controller-manager and kube-scheduler. Pure."""

from __future__ import annotations

from ..pki.certificates import CA
from ..pki.pki import key_path
from ..profiles.profiles import CONTROLLER_MANAGER, SCHEDULER, Flag
from ..request import ControlPlaneRequest
from .flags import Flags, delegated_authentication, flags, kubeconfigs, listen_flags, pair

_NO_PROFILING = ("profiling", "false")


def controller_manager(request: ControlPlaneRequest) -> Flags:
    for_pods = [
        *flags("service_cidr", ("service-cluster-ip-range", request.service_cidr)),
        *flags("node networks are allocated outside of the control plane", ("allocate-node-cidrs", "false")),
        *flags("name", ("cluster-name", request.mark)),
        *flags(
            "it makes this directory; the default is outside of the state directory",
            ("flex-volume-plugin-dir", flex_dir(request)),
        ),
    ]
    return [
        *_client(request, CONTROLLER_MANAGER, port="controller_manager_port"),
        *flags("each controller may do what it needs, and no more", ("use-service-account-credentials", "true")),
        # Each of about 50 controllers fetches credentials at the start: with the default limits that takes 5 s.
        *flags("a start asks much at once", ("kube-api-qps", "200"), ("kube-api-burst", "400")),
        *flags("signs tokens that Secrets hold", ("service-account-private-key-file", request.pki("sa.key"))),
        *flags("the authority of the API server, published in each namespace", ("root-ca-file", request.pki(CA))),
        *flags(
            "signs certificates that were approved",
            ("cluster-signing-cert-file", request.pki(CA)),
            ("cluster-signing-key-file", key_path(request.pki(CA))),
        ),
        *(for_pods if request.has_pods else []),
        *flags("no /debug/pprof", _NO_PROFILING),
    ]


def scheduler(request: ControlPlaneRequest) -> Flags:
    return [*_client(request, SCHEDULER, port="scheduler_port"), *flags("no /debug/pprof", _NO_PROFILING)]


def flex_dir(request: ControlPlaneRequest) -> str:
    """A directory for kube-controller-manager's FlexVolume plugins, in the state directory."""
    return request.at("flexvolume")


def _leader_election(request: ControlPlaneRequest) -> Flag:
    if request.is_balanced:
        return Flag("leader-elect", "true", "one of the members' acts")
    return Flag("leader-elect", "false", "one of it")


def _client(request: ControlPlaneRequest, component: str, *, port: str) -> Flags:
    return [
        *kubeconfigs(request, component),
        *listen_flags(request, port),
        *pair(
            request.pki(f"{component}.crt"),
            "what it serves, and shows, health and metrics with",
            certificate="tls-cert-file",
            key="tls-private-key-file",
        ),
        *delegated_authentication(request),
        _leader_election(request),
    ]
