# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command lines of the three API servers: what they share, and what each has beside it. Pure."""

from __future__ import annotations

import ipaddress
import json

from .aggregation import deployment as aggregation
from .audit import audit_flags
from .certificates import API_SERVING, CA, FRONT_PROXY_CLIENT, KUBELET_CLIENT
from .desired import ControlPlane
from .encryption import encryption_flags
from .etcd import embedded_etcd, etcd_client, is_embedded
from .flags import Flags, believed_front_proxy, flags, listening, pair, service_account_keys
from .pki import key_path

# Paths that anyone may ask: what a load balancer or a person without credentials needs to see that it lives.
_ANONYMOUS_PATHS = ("/healthz", "/livez", "/readyz")


def kube_api_server(plane: ControlPlane) -> Flags:
    return [
        *_served(plane),
        *flags("a kubelet may see and change what is its own", ("authorization-mode", "Node,RBAC")),
        *flags("as the authorization mode Node", ("enable-admission-plugins", "NodeRestriction")),
        *etcd_client(plane),
        *service_account_keys(plane),
        *flags("service_cidr", ("service-cluster-ip-range", plane.service_cidr)),
        *flags("kubelets serve with certificates of ours", ("kubelet-certificate-authority", plane.pki(CA))),
        *pair(
            plane.pki(KUBELET_CLIENT),
            "its client of kubelets, for logs and exec",
            certificate="kubelet-client-certificate",
            key="kubelet-client-key",
        ),
        *flags("names of nodes need no DNS", ("kubelet-preferred-address-types", "InternalIP,Hostname")),
        *_front_proxy(plane),
        *flags("node agents run privileged pods", ("allow-privileged", "true")),
        *_on_loopback(plane),
        *_quiet(plane),
    ]


def generic_api_server(plane: ControlPlane) -> Flags:
    return [*_without_pods(plane), *etcd_client(plane), *_quiet(plane)]


def hyper_mini(plane: ControlPlane) -> Flags:
    """The generic API server, with etcd and the controllers in the same process."""
    return [
        *_without_pods(plane),
        *(embedded_etcd(plane) if is_embedded(plane) else etcd_client(plane)),
        *flags(
            "its controllers sign tokens and certificates",
            ("service-account-private-key-file", plane.pki("sa.key")),
            ("root-ca-file", plane.pki(CA)),
            ("cluster-signing-cert-file", plane.pki(CA)),
            ("cluster-signing-key-file", key_path(plane.pki(CA))),
        ),
        *_quiet(plane),
    ]


def authentication_config(plane: ControlPlane) -> dict[str, str]:
    conditions = [{"path": path} for path in _ANONYMOUS_PATHS]
    value = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "anonymous": {"enabled": True, "conditions": conditions},
    }
    return {_authentication_path(plane): json.dumps(value, indent=2) + "\n"}


def _without_pods(plane: ControlPlane) -> Flags:
    return [
        *_served(plane),
        *flags("the default of this program lets everyone do everything", ("authorization-mode", "RBAC")),
        *service_account_keys(plane),
        *_front_proxy(plane),
    ]


def _served(plane: ControlPlane) -> Flags:
    listen, port = listening(plane, "secure_port")
    return [
        listen,
        *flags("what clients are told", ("advertise-address", plane.address)),
        port,
        *pair(plane.pki(API_SERVING), "what it serves with", certificate="tls-cert-file", key="tls-private-key-file"),
        *flags("who holds a certificate of ours is whom it names", ("client-ca-file", plane.pki(CA))),
        *flags("without credentials, health alone", ("authentication-config", _authentication_path(plane))),
    ]


def _front_proxy(plane: ControlPlane) -> Flags:
    return [
        *believed_front_proxy(plane),
        *flags(
            "as extension API servers read them",
            ("requestheader-username-headers", "X-Remote-User"),
            ("requestheader-group-headers", "X-Remote-Group"),
            ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
        ),
        *pair(
            plane.pki(FRONT_PROXY_CLIENT),
            "its client of extension API servers",
            certificate="proxy-client-cert-file",
            key="proxy-client-key-file",
        ),
        *(
            flags(
                "through it the aggregation agent leads to extension API servers",
                *aggregation.api_server_options(plane),
            )
            if plane.has_agent
            else []
        ),
    ]


def _on_loopback(plane: ControlPlane) -> Flags:
    if not ipaddress.IPv4Address(plane.address).is_loopback:
        return []
    return flags("no Endpoints may name a loopback address", ("endpoint-reconciler-type", "none"))


def _quiet(plane: ControlPlane) -> Flags:
    return [
        *encryption_flags(plane),
        *audit_flags(plane),
        *flags("no /debug/pprof", ("profiling", "false")),
        # Without it an open watch keeps a stopping server for up to a minute.
        *flags("open watches keep a stopping server no longer", ("shutdown-watch-termination-grace-period", "5s")),
    ]


def _authentication_path(plane: ControlPlane) -> str:
    return plane.at("config", "authentication.json")
