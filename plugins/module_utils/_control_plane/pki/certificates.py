# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The certificates of a control plane: each process has those that it needs, and no other. Pure."""

from __future__ import annotations

from ..aggregation import deployment as aggregation
from ..profiles.profiles import CONTROLLER_MANAGER, ETCD, EXISTING, SCHEDULER
from ..request import ControlPlaneRequest
from .identities import ADMIN_USER, SERVICE_PROXY_USER
from .pki import CLIENT, SERVER, Certificate, sans

CA = "ca.crt"
ETCD_CA = "etcd-ca.crt"
ETCD_PEER = "etcd-peer.crt"
ETCD_CLIENT = "apiserver-etcd-client.crt"
API_SERVING = "apiserver.crt"
KUBELET_CLIENT = "apiserver-kubelet-client.crt"
KUBELET_CLIENT_USER = "kube-apiserver-kubelet-client"
FRONT_PROXY_CA = "front-proxy-ca.crt"
FRONT_PROXY_CLIENT = "front-proxy-client.crt"
FRONT_PROXY_USER = "front-proxy-client"
ADMIN = "admin.crt"


def authorities(request: ControlPlaneRequest) -> list[Certificate]:
    """Separate authorities, so that a client of one part is not trusted by the others: a kubelet's certificate does not open etcd."""
    names = [CA, *([ETCD_CA] if request.choice.etcd != EXISTING else []), FRONT_PROXY_CA]
    return [
        Certificate(path=request.pki(name), issuer=None, common_name=f"{request.mark}-{name[: -len('.crt')]}")
        for name in names
    ]


def certificates(request: ControlPlaneRequest) -> list[Certificate]:
    """The certificates of the control plane itself, with kubeadm's names where it has the same certificate."""
    here = sans(*_member_addresses(request))
    processes = request.composition.processes
    own_etcd = request.choice.etcd != EXISTING

    def leaf(
        name: str,
        common_name: str,
        *usages: str,
        issuer: str = CA,
        names: tuple[str, ...] = (),
    ) -> Certificate:
        return Certificate(
            path=request.pki(name),
            issuer=request.pki(issuer),
            common_name=common_name,
            usages=usages,
            names=names,
            days=request.certificate_days,
        )

    def component(name: str) -> Certificate:
        return leaf(f"{name}.crt", f"system:{name}", CLIENT, SERVER, names=here)

    rows = [
        # etcd's gateway is its own client.
        (own_etcd, leaf("etcd.crt", ETCD, CLIENT, SERVER, issuer=ETCD_CA, names=here)),
        (ETCD in processes, leaf(ETCD_PEER, "etcd-peer", CLIENT, SERVER, issuer=ETCD_CA, names=here)),
        (own_etcd, leaf(ETCD_CLIENT, "apiserver-etcd-client", CLIENT, issuer=ETCD_CA)),
        (True, leaf(API_SERVING, "kube-apiserver", SERVER, names=_api_server_names(request))),
        (request.has_pods, leaf(KUBELET_CLIENT, KUBELET_CLIENT_USER, CLIENT)),
        (True, leaf(FRONT_PROXY_CLIENT, FRONT_PROXY_USER, CLIENT, issuer=FRONT_PROXY_CA)),
        (CONTROLLER_MANAGER in processes, component(CONTROLLER_MANAGER)),
        (SCHEDULER in processes, component(SCHEDULER)),
        (True, leaf(ADMIN, ADMIN_USER, CLIENT)),
    ]
    of_agent = [aggregation.certificate(request)] if request.has_agent else []
    return [*(certificate for is_needed, certificate in rows if is_needed), *of_agent]


def node_certificates(request: ControlPlaneRequest) -> list[Certificate]:
    """What each kubelet and its kube-proxy or service proxy need to join, in pki/nodes/NAME."""
    issued = []
    for node in request.nodes:
        rows = [
            ("kubelet", f"system:node:{node.name}", "system:nodes", CLIENT, ()),
            ("kubelet-serving", f"system:node:{node.name}", "system:nodes", SERVER, sans(node.name, *node.addresses)),
            ("kube-proxy", "system:kube-proxy", "", CLIENT, ()),
            *([("service-proxy", SERVICE_PROXY_USER, "", CLIENT, ())] if node.service_proxy else []),
        ]
        issued += [
            Certificate(
                path=request.pki("nodes", node.name, f"{file}.crt"),
                issuer=request.pki(CA),
                common_name=common_name,
                organization=organization,
                usages=(usage,),
                names=names,
                days=request.certificate_days,
            )
            for file, common_name, organization, usage, names in rows
        ]
    return issued


def _api_server_names(request: ControlPlaneRequest) -> tuple[str, ...]:
    """Names and addresses of the serving certificate; with those of the Service `kubernetes` where there are pods."""
    in_cluster = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    whole = f"kubernetes.default.svc.{request.cluster_domain}"
    of_service = [*request.service_addresses, *in_cluster, whole] if request.has_pods else []
    return sans(*_member_addresses(request), *of_service, *request.extra_sans)


def _member_addresses(request: ControlPlaneRequest) -> tuple[str, ...]:
    """Addresses at which processes are reached. The kernel connects to a member on loopback from 127.0.0.1, and etcd compares
    the address of a peer with its certificate."""
    if not request.is_balanced:
        return (request.address,)
    return (request.address, "127.0.0.1", *(member.listen_address for member in request.each_member))
