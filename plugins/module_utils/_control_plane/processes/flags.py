# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Flags of several processes: certificates with their keys, and authentication. Pure."""

from __future__ import annotations

import os

from ..pki.certificates import CA, FRONT_PROXY_CA, FRONT_PROXY_USER
from ..pki.pki import key_path
from ..profiles.jwt import service_account_issuer
from ..profiles.profiles import Flag
from ..request import ControlPlaneRequest

Flags = list[Flag]


def flags(why: str, *rows: tuple[str, str]) -> Flags:
    """Flags that share one reason."""
    return [Flag(name=name, value=value, why=why) for name, value in rows]


def pair(path: str, why: str, *, certificate: str, key: str) -> Flags:
    """Two flags for one client or server: `certificate` and `key` are their names, `path` is the certificate's."""
    return flags(why, (certificate, path), (key, key_path(path)))


def front_proxy_trust(request: ControlPlaneRequest) -> Flags:
    """Flags by which a process takes a client's name from the API server, which shows its front-proxy certificate."""
    return flags(
        "the API server's word, given as front proxy, for who asks",
        ("requestheader-client-ca-file", request.pki(FRONT_PROXY_CA)),
        ("requestheader-allowed-names", FRONT_PROXY_USER),
    )


def delegated_authentication(request: ControlPlaneRequest) -> Flags:
    """Authentication by flags. Without them these processes read it from the API server, and exit when that is not ready."""
    return [
        *flags("whom to believe, known without the API server", ("client-ca-file", request.pki(CA))),
        *front_proxy_trust(request),
    ]


def listen_flags(request: ControlPlaneRequest, port: str) -> Flags:
    """`port` is the name of the option that has the port."""
    return flags(
        "listens here and nowhere else",
        ("bind-address", request.listen_address),
        ("secure-port", str(request.port(port))),
    )


def kubeconfigs(request: ControlPlaneRequest, component: str) -> Flags:
    """Flags that name the component's kubeconfig: as a client of the API server, which authenticates its own clients too."""
    path = kubeconfig_path(request, component)
    return flags(
        "its own client of the API server",
        ("kubeconfig", path),
        ("authentication-kubeconfig", path),
        ("authorization-kubeconfig", path),
    )


def kubeconfig_path(request: ControlPlaneRequest, component: str) -> str:
    return request.at("config", f"{component}.kubeconfig")


def service_account_keys(request: ControlPlaneRequest) -> Flags:
    return flags(
        "signs ServiceAccount tokens; the issuer stays when the deployment mode changes",
        ("service-account-issuer", service_account_issuer(request.cluster_domain)),
        ("service-account-key-file", request.pki("sa.pub")),
        ("service-account-signing-key-file", request.pki("sa.key")),
    )


def log_path(request: ControlPlaneRequest, component: str) -> str:
    return os.path.join(request.log_dir, f"{request.in_member(component)}.log")
