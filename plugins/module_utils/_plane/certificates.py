# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The certificates of a control plane: each process has those that it needs, and no other. Pure."""

from __future__ import annotations

from .aggregation import deployment as aggregation
from .desired import ControlPlane
from .pki import CLIENT, SERVER, Certificate, sans
from .profiles import CONTROLLER_MANAGER, ETCD, EXISTING, SCHEDULER

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


def authorities(plane: ControlPlane) -> list[Certificate]:
    """So many that a client of one part is a stranger to the others: a kubelet's certificate does not open etcd."""
    names = [CA, *([ETCD_CA] if plane.choice.etcd != EXISTING else []), FRONT_PROXY_CA]
    return [
        Certificate(path=plane.pki(name), issuer=None, common_name=f"{plane.mark}-{name[: -len('.crt')]}")
        for name in names
    ]


def certificates(plane: ControlPlane) -> list[Certificate]:
    """The certificates of the control plane itself. kubeadm's names where it has one for the same thing."""
    here = sans(plane.address)
    processes = plane.composition.processes
    own_etcd = plane.choice.etcd != EXISTING

    def leaf(
        name: str,
        common_name: str,
        *usages: str,
        issuer: str = CA,
        organization: str = "",
        names: tuple[str, ...] = (),
    ) -> Certificate:
        return Certificate(
            path=plane.pki(name),
            issuer=plane.pki(issuer),
            common_name=common_name,
            organization=organization,
            usages=usages,
            names=names,
            days=plane.certificate_days,
        )

    def component(name: str) -> Certificate:
        return leaf(f"{name}.crt", f"system:{name}", CLIENT, SERVER, names=here)

    rows = [
        # etcd's gateway is its own client.
        (own_etcd, leaf("etcd.crt", ETCD, CLIENT, SERVER, issuer=ETCD_CA, names=here)),
        (ETCD in processes, leaf(ETCD_PEER, "etcd-peer", CLIENT, SERVER, issuer=ETCD_CA, names=here)),
        (own_etcd, leaf(ETCD_CLIENT, "apiserver-etcd-client", CLIENT, issuer=ETCD_CA)),
        (True, leaf(API_SERVING, "kube-apiserver", SERVER, names=_api_server_names(plane))),
        (plane.has_pods, leaf(KUBELET_CLIENT, KUBELET_CLIENT_USER, CLIENT)),
        (True, leaf(FRONT_PROXY_CLIENT, FRONT_PROXY_USER, CLIENT, issuer=FRONT_PROXY_CA)),
        (CONTROLLER_MANAGER in processes, component(CONTROLLER_MANAGER)),
        (SCHEDULER in processes, component(SCHEDULER)),
        (True, leaf(ADMIN, "kubernetes-admin", CLIENT, organization="system:masters")),
    ]
    of_agent = [aggregation.certificate(plane)] if plane.has_agent else []
    return [*(certificate for is_needed, certificate in rows if is_needed), *of_agent]


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
                issuer=plane.pki(CA),
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
    """With those of the Service `kubernetes` where pods ask for it."""
    in_cluster = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    whole = f"kubernetes.default.svc.{plane.cluster_domain}"
    of_service = [plane.service_address, *in_cluster, whole] if plane.has_pods else []
    return sans(plane.address, *of_service, *plane.extra_sans)
