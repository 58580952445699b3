# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command lines of the three API servers. Pure."""

from __future__ import annotations

import ipaddress
import json

from ..aggregation import deployment as aggregation
from ..pki.certificates import API_SERVING, CA, FRONT_PROXY_CLIENT, KUBELET_CLIENT
from ..pki.encryption import encryption_flags
from ..pki.pki import key_path
from ..request import ControlPlaneRequest
from .audit_log import audit_flags
from .etcd import embedded_etcd, etcd_client, is_embedded
from .flags import Flags, flags, front_proxy_trust, listen_flags, pair, service_account_keys

# Paths for anonymous requests: health checks by load balancers and by people without credentials.
_ANONYMOUS_PATHS = ("/healthz", "/livez", "/readyz")


def kube_api_server(request: ControlPlaneRequest) -> Flags:
    """The flags of profile full."""
    return [
        *_serving_flags(request),
        *flags("a kubelet may see and change what is its own", ("authorization-mode", "Node,RBAC")),
        *flags("as the authorization mode Node", ("enable-admission-plugins", "NodeRestriction")),
        *etcd_client(request),
        *service_account_keys(request),
        *flags("service_cidr", ("service-cluster-ip-range", request.service_cidr)),
        *flags(
            "webhooks behind a Service are asked at its endpoints: where it runs need not be a node",
            ("enable-aggregator-routing", "true"),
        ),
        *flags(
            "kubelets serve with certificates of this authority", ("kubelet-certificate-authority", request.pki(CA))
        ),
        *pair(
            request.pki(KUBELET_CLIENT),
            "its client of kubelets, for logs and exec",
            certificate="kubelet-client-certificate",
            key="kubelet-client-key",
        ),
        *flags("names of nodes need no DNS", ("kubelet-preferred-address-types", "InternalIP,Hostname")),
        *_front_proxy(request),
        *flags("node agents run privileged pods", ("allow-privileged", "true")),
        *_on_loopback(request),
        *_quiet(request),
    ]


def generic_api_server(request: ControlPlaneRequest) -> Flags:
    """The flags of an API server without pods, nodes and Services."""
    return [*_without_pods(request), *etcd_client(request), *_quiet(request)]


def hyper_mini(request: ControlPlaneRequest) -> Flags:
    """The generic API server, with etcd and the controllers in the same process."""
    return [
        *_without_pods(request),
        *(embedded_etcd(request) if is_embedded(request) else etcd_client(request)),
        *flags(
            "its controllers sign tokens and certificates",
            ("service-account-private-key-file", request.pki("sa.key")),
            ("root-ca-file", request.pki(CA)),
            ("cluster-signing-cert-file", request.pki(CA)),
            ("cluster-signing-key-file", key_path(request.pki(CA))),
        ),
        *_quiet(request),
    ]


def authentication_config(request: ControlPlaneRequest) -> dict[str, str]:
    """The AuthenticationConfiguration: its text as JSON, by its path."""
    conditions = [{"path": path} for path in _ANONYMOUS_PATHS]
    value = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "anonymous": {"enabled": True, "conditions": conditions},
        # Omitted rather than empty: services restart when the content of the file changes.
        **({"jwt": list(request.jwt)} if request.jwt else {}),
    }
    return {_authentication_path(request): json.dumps(value, indent=2) + "\n"}


def _without_pods(request: ControlPlaneRequest) -> Flags:
    return [
        *_serving_flags(request),
        *flags("the default of this program lets everyone do everything", ("authorization-mode", "RBAC")),
        *service_account_keys(request),
        *_front_proxy(request),
    ]


def _serving_flags(request: ControlPlaneRequest) -> Flags:
    listen, port = listen_flags(request, "secure_port")
    return [
        listen,
        *flags("the address for clients in the cluster", ("advertise-address", request.address)),
        port,
        *pair(request.pki(API_SERVING), "what it serves with", certificate="tls-cert-file", key="tls-private-key-file"),
        *flags("client certificates of this authority name their user", ("client-ca-file", request.pki(CA))),
        *flags("without credentials, health alone", ("authentication-config", _authentication_path(request))),
    ]


def _front_proxy(request: ControlPlaneRequest) -> Flags:
    return [
        *front_proxy_trust(request),
        *flags(
            "as extension API servers read them",
            ("requestheader-username-headers", "X-Remote-User"),
            ("requestheader-group-headers", "X-Remote-Group"),
            ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
        ),
        *pair(
            request.pki(FRONT_PROXY_CLIENT),
            "its client of extension API servers",
            certificate="proxy-client-cert-file",
            key="proxy-client-key-file",
        ),
        *(
            flags(
                "through it the aggregation agent leads to extension API servers",
                *aggregation.api_server_options(request),
            )
            if request.has_egress
            else []
        ),
    ]


def _on_loopback(request: ControlPlaneRequest) -> Flags:
    if not ipaddress.ip_address(request.address).is_loopback:
        return []
    return flags("no Endpoints may name a loopback address", ("endpoint-reconciler-type", "none"))


def _quiet(request: ControlPlaneRequest) -> Flags:
    return [
        *encryption_flags(request),
        *audit_flags(request),
        *flags("no /debug/pprof", ("profiling", "false")),
        # Without this flag an open watch delays the end of a stopping server by up to a minute.
        *flags("open watches keep a stopping server no longer", ("shutdown-watch-termination-grace-period", "5s")),
    ]


def _authentication_path(request: ControlPlaneRequest) -> str:
    return request.at("config", "authentication.json")
