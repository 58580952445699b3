# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Flags that several processes have: certificates with their keys, and whom to believe. Pure."""

from __future__ import annotations

import os

from .certificates import CA, FRONT_PROXY_CA, FRONT_PROXY_USER
from .desired import ControlPlane
from .pki import key_path
from .profiles import Flag

Flags = list[Flag]


def flags(why: str, *rows: tuple[str, str]) -> Flags:
    """Flags that are there for one reason."""
    return [Flag(name=name, value=value, why=why) for name, value in rows]


def pair(path: str, why: str, *, certificate: str, key: str) -> Flags:
    return flags(why, (certificate, path), (key, key_path(path)))


def believed_front_proxy(plane: ControlPlane) -> Flags:
    return flags(
        "the API server's word, given as front proxy, for who asks",
        ("requestheader-client-ca-file", plane.pki(FRONT_PROXY_CA)),
        ("requestheader-allowed-names", FRONT_PROXY_USER),
    )


def delegated(plane: ControlPlane) -> Flags:
    """Whom to believe, said here: else they ask the API server for it at their start, and end when it is not ready."""
    return [
        *flags("whom to believe, known without the API server", ("client-ca-file", plane.pki(CA))),
        *believed_front_proxy(plane),
    ]


def listening(plane: ControlPlane, port: str) -> Flags:
    return flags(
        "listens here and nowhere else", ("bind-address", plane.address), ("secure-port", str(plane.port(port)))
    )


def kubeconfigs(plane: ControlPlane, component: str) -> Flags:
    path = kubeconfig_path(plane, component)
    return flags(
        "its own client of the API server",
        ("kubeconfig", path),
        ("authentication-kubeconfig", path),
        ("authorization-kubeconfig", path),
    )


def kubeconfig_path(plane: ControlPlane, component: str) -> str:
    return plane.at("config", f"{component}.kubeconfig")


def service_account_keys(plane: ControlPlane) -> Flags:
    return flags(
        "signs ServiceAccount tokens; the issuer stays when the shape changes",
        ("service-account-issuer", f"https://kubernetes.default.svc.{plane.cluster_domain}"),
        ("service-account-key-file", plane.pki("sa.pub")),
        ("service-account-signing-key-file", plane.pki("sa.key")),
    )


def log_path(plane: ControlPlane, component: str) -> str:
    return os.path.join(plane.log_dir, f"{component}.log")
