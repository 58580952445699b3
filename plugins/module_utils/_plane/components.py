# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The four programs of a full control plane: their command lines, and the files these name. Pure."""

from __future__ import annotations

import json
import os

from .._core.kinds import digest
from .._core.names import joined
from .._core.service import Service
from .desired import ControlPlane
from .kubeconfig import referring
from .pki import CLIENT, SERVER, Certificate, key_path, sans
from .record import Member, Record

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
COMPONENTS = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER)

KUBELET_CLIENT = "kube-apiserver-kubelet-client"
_FRONT_PROXY_CLIENT = "front-proxy-client"
# Paths that anyone may ask: what a load balancer or a person without credentials needs to see that it lives.
_ANONYMOUS_PATHS = ("/healthz", "/livez", "/readyz")


def authorities(plane: ControlPlane) -> list[Certificate]:
    """Three, so that a client of one part is a stranger to the others: a kubelet's certificate does not open etcd."""
    return [
        Certificate(path=plane.pki(f"{name}.crt"), issuer=None, common_name=f"{plane.mark}-{name}")
        for name in ("ca", "etcd-ca", "front-proxy-ca")
    ]


def certificates(plane: ControlPlane) -> list[Certificate]:
    """The certificates of the control plane itself. kubeadm's names where it has one for the same thing."""
    ca, etcd_ca = plane.pki("ca.crt"), plane.pki("etcd-ca.crt")
    here = sans(plane.address)

    def leaf(
        name: str,
        *,
        usages: tuple[str, ...],
        common_name: str = "",
        issuer: str = ca,
        organization: str = "",
        names: tuple[str, ...] = (),
    ) -> Certificate:
        return Certificate(
            path=plane.pki(f"{name}.crt"),
            issuer=issuer,
            common_name=common_name or name,
            organization=organization,
            usages=usages,
            names=names,
            days=plane.certificate_days,
        )

    return [
        leaf(ETCD, usages=(CLIENT, SERVER), issuer=etcd_ca, names=here),  # its gateway is its own client
        leaf("etcd-peer", usages=(CLIENT, SERVER), issuer=etcd_ca, names=here),
        leaf("apiserver-etcd-client", usages=(CLIENT,), issuer=etcd_ca),
        leaf("apiserver", usages=(SERVER,), common_name=API_SERVER, names=_api_server_names(plane)),
        leaf("apiserver-kubelet-client", usages=(CLIENT,), common_name=KUBELET_CLIENT),
        leaf(_FRONT_PROXY_CLIENT, usages=(CLIENT,), issuer=plane.pki("front-proxy-ca.crt")),
        leaf(CONTROLLER_MANAGER, usages=(CLIENT, SERVER), common_name=f"system:{CONTROLLER_MANAGER}", names=here),
        leaf(SCHEDULER, usages=(CLIENT, SERVER), common_name=f"system:{SCHEDULER}", names=here),
        leaf("admin", usages=(CLIENT,), common_name="kubernetes-admin", organization="system:masters"),
    ]


def node_certificates(plane: ControlPlane) -> list[Certificate]:
    """What each kubelet and its kube-proxy need to join, in pki/nodes/NAME."""
    found = []
    for node in plane.nodes:
        rows = [
            ("kubelet", f"system:node:{node.name}", "system:nodes", CLIENT, ()),
            ("kubelet-serving", f"system:node:{node.name}", "system:nodes", SERVER, sans(node.name, *node.addresses)),
            ("kube-proxy", "system:kube-proxy", "", CLIENT, ()),
        ]
        found += [
            Certificate(
                path=plane.pki("nodes", node.name, f"{file}.crt"),
                issuer=plane.pki("ca.crt"),
                common_name=common_name,
                organization=organization,
                usages=(usage,),
                names=names,
                days=plane.certificate_days,
            )
            for file, common_name, organization, usage, names in rows
        ]
    return found


def _api_server_names(plane: ControlPlane) -> tuple[str, ...]:
    in_cluster = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    whole = f"kubernetes.default.svc.{plane.cluster_domain}"
    return sans(plane.address, plane.service_address, *in_cluster, whole, *plane.extra_sans)


def config_files(plane: ControlPlane) -> dict[str, str]:
    """Path and content of the files that the services read, beside certificates and keys."""
    conditions = [{"path": path} for path in _ANONYMOUS_PATHS]
    authentication = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "anonymous": {"enabled": True, "conditions": conditions},
    }
    return {
        _authentication_path(plane): json.dumps(authentication, indent=2) + "\n",
        **{
            _kubeconfig_path(plane, component): referring(
                name=joined(plane.name, component),
                server=plane.endpoint,
                authority=plane.pki("ca.crt"),
                certificate=plane.pki(f"{component}.crt"),
            )
            for component in (CONTROLLER_MANAGER, SCHEDULER)
        },
    }


def services(plane: ControlPlane) -> list[Service]:
    """In the order of starting."""
    commands = {
        ETCD: _etcd(plane),
        API_SERVER: _api_server(plane),
        CONTROLLER_MANAGER: _controller_manager(plane),
        SCHEDULER: _scheduler(plane),
    }
    configs = config_files(plane)
    return [
        Service(
            name=joined(plane.name, component),
            argv=(binary_path(plane, component), *(f"--{name}={value}" for name, value in options)),
            log=os.path.join(plane.log_dir, f"{component}.log"),
            cgroup=f"{plane.cgroup}/{component}",
            config_digest=digest(*(configs[value] for _name, value in options if value in configs)),
        )
        for component, options in commands.items()
    ]


def binary_path(plane: ControlPlane, component: str) -> str:
    return os.path.join(plane.bin_dir, component)


def credentials(argv: tuple[str, ...]) -> list[str]:
    """The certificate and key files that a service's command line names: it runs with their content at its start."""
    values = {word.partition("=")[2] for word in argv}
    return sorted(value for value in values if value.endswith((".crt", ".key", ".pub")))


def record(plane: ControlPlane) -> Record:
    at = plane.address
    health = {
        ETCD: f"https://{at}:{plane.port('etcd_client_port')}/health",
        API_SERVER: f"{plane.endpoint}/readyz",
        CONTROLLER_MANAGER: f"https://{at}:{plane.port('controller_manager_port')}/healthz",
        SCHEDULER: f"https://{at}:{plane.port('scheduler_port')}/healthz",
    }
    made = [*authorities(plane), *certificates(plane), *node_certificates(plane)]
    return Record(
        state_dir=plane.state_dir,
        name=plane.name,
        kubernetes_version=plane.kubernetes_version,
        endpoint=plane.endpoint,
        kubeconfig=plane.kubeconfig,
        authority=plane.pki("ca.crt"),
        etcd_authority=plane.pki("etcd-ca.crt"),
        client=plane.pki("admin.crt"),
        etcd_client=plane.pki("apiserver-etcd-client.crt"),
        certificates=tuple(certificate.path for certificate in made),
        members=tuple(
            Member(
                component=component,
                service=os.path.join(plane.sv_dir, joined(plane.name, component)),
                log=os.path.join(plane.log_dir, f"{component}.log"),
                health=health[component],
            )
            for component in COMPONENTS
        ),
    )


Options = list[tuple[str, str]]


def _etcd(plane: ControlPlane) -> Options:
    client = f"https://{plane.address}:{plane.port('etcd_client_port')}"
    peer = f"https://{plane.address}:{plane.port('etcd_peer_port')}"
    member = "ballast"  # constant: the data directory belongs to the member of this name
    return [
        ("name", member),
        ("data-dir", plane.at("etcd")),
        ("listen-client-urls", client),
        ("advertise-client-urls", client),
        ("listen-peer-urls", peer),
        ("initial-advertise-peer-urls", peer),
        ("initial-cluster", f"{member}={peer}"),
        ("client-cert-auth", "true"),
        ("trusted-ca-file", plane.pki("etcd-ca.crt")),
        *_pair(plane, ETCD, certificate="cert-file", key="key-file"),
        ("peer-client-cert-auth", "true"),
        ("peer-trusted-ca-file", plane.pki("etcd-ca.crt")),
        *_pair(plane, "etcd-peer", certificate="peer-cert-file", key="peer-key-file"),
        ("log-level", "warn"),
        *([] if plane.etcd_fsync else [("unsafe-no-fsync", "true")]),
    ]


def _api_server(plane: ControlPlane) -> Options:
    return [
        ("bind-address", plane.address),
        ("advertise-address", plane.address),
        ("secure-port", str(plane.port("secure_port"))),
        *_pair(plane, "apiserver", certificate="tls-cert-file", key="tls-private-key-file"),
        ("client-ca-file", plane.pki("ca.crt")),
        ("authentication-config", _authentication_path(plane)),
        ("authorization-mode", "Node,RBAC"),
        ("enable-admission-plugins", "NodeRestriction"),
        ("etcd-servers", f"https://{plane.address}:{plane.port('etcd_client_port')}"),
        ("etcd-cafile", plane.pki("etcd-ca.crt")),
        *_pair(plane, "apiserver-etcd-client", certificate="etcd-certfile", key="etcd-keyfile"),
        ("service-account-issuer", f"https://kubernetes.default.svc.{plane.cluster_domain}"),
        ("service-account-key-file", plane.pki("sa.pub")),
        ("service-account-signing-key-file", plane.pki("sa.key")),
        ("service-cluster-ip-range", plane.service_cidr),
        ("kubelet-certificate-authority", plane.pki("ca.crt")),
        *_pair(plane, "apiserver-kubelet-client", certificate="kubelet-client-certificate", key="kubelet-client-key"),
        ("kubelet-preferred-address-types", "InternalIP,Hostname"),
        *_front_proxy(plane),
        ("requestheader-username-headers", "X-Remote-User"),
        ("requestheader-group-headers", "X-Remote-Group"),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
        *_pair(plane, _FRONT_PROXY_CLIENT, certificate="proxy-client-cert-file", key="proxy-client-key-file"),
        ("allow-privileged", "true"),  # node agents run privileged pods
        ("profiling", "false"),
        # Without it an open watch keeps a stopping server for up to a minute.
        ("shutdown-watch-termination-grace-period", "5s"),
    ]


def _controller_manager(plane: ControlPlane) -> Options:
    return [
        *_kubeconfigs(plane, CONTROLLER_MANAGER),
        ("bind-address", plane.address),
        ("secure-port", str(plane.port("controller_manager_port"))),
        *_pair(plane, CONTROLLER_MANAGER, certificate="tls-cert-file", key="tls-private-key-file"),
        *_delegated(plane),
        ("leader-elect", "false"),
        ("use-service-account-credentials", "true"),
        # Each of about 50 controllers fetches credentials at the start: with the default limits that takes 5 s.
        ("kube-api-qps", "200"),
        ("kube-api-burst", "400"),
        ("service-account-private-key-file", plane.pki("sa.key")),
        ("root-ca-file", plane.pki("ca.crt")),
        ("cluster-signing-cert-file", plane.pki("ca.crt")),
        ("cluster-signing-key-file", key_path(plane.pki("ca.crt"))),
        ("service-cluster-ip-range", plane.service_cidr),
        # Node networks are given by who makes the nodes.
        ("allocate-node-cidrs", "false"),
        ("cluster-name", plane.mark),
        # It makes this directory; the default is outside of ours.
        ("flex-volume-plugin-dir", plane.at("flexvolume")),
        ("profiling", "false"),
    ]


def _scheduler(plane: ControlPlane) -> Options:
    return [
        *_kubeconfigs(plane, SCHEDULER),
        ("bind-address", plane.address),
        ("secure-port", str(plane.port("scheduler_port"))),
        *_pair(plane, SCHEDULER, certificate="tls-cert-file", key="tls-private-key-file"),
        *_delegated(plane),
        ("leader-elect", "false"),
        ("profiling", "false"),
    ]


def _front_proxy(plane: ControlPlane) -> Options:
    return [
        ("requestheader-client-ca-file", plane.pki("front-proxy-ca.crt")),
        ("requestheader-allowed-names", _FRONT_PROXY_CLIENT),
    ]


def _delegated(plane: ControlPlane) -> Options:
    """Whom to believe, said here: else they ask the API server for it at their start, and end when it is not ready."""
    return [("client-ca-file", plane.pki("ca.crt")), *_front_proxy(plane)]


def _pair(plane: ControlPlane, name: str, *, certificate: str, key: str) -> Options:
    path = plane.pki(f"{name}.crt")
    return [(certificate, path), (key, key_path(path))]


def _kubeconfigs(plane: ControlPlane, component: str) -> Options:
    path = _kubeconfig_path(plane, component)
    return [("kubeconfig", path), ("authentication-kubeconfig", path), ("authorization-kubeconfig", path)]


def _kubeconfig_path(plane: ControlPlane, component: str) -> str:
    return plane.at("config", f"{component}.kubeconfig")


def _authentication_path(plane: ControlPlane) -> str:
    return plane.at("config", "authentication.json")
