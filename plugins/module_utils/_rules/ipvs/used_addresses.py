# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses that ipvs binds on this node although another machine uses them.

ipvs binds each address of a Service to the link kube-ipvs0, so that packets to it are local. From then on, every packet of
this node to that address stays on the node, whatever its port. If the address belongs to another Node, the API server, a
gateway or a name server, this node can no longer reach that machine: Nodes become NotReady, kubelets lose the API server.
Source: k/k#66966, k/k#104679, k/k#127410, kubespray#5254, k3s#5000.

kube-proxy does not bind an external or load balancer address that is on another link of the same node (since 1.27,
k/k#115019). All other nodes do bind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ..._core.text.errors import BallastError
from ..model import CLUSTER_IP, EXTERNAL_IP, LOAD_BALANCER, NODE_PORT, FamilyView, Frontend, ServicePort
from .messages import MESSAGES

Destination = tuple[str, int]  # protocol and port
_FIELDS = MappingProxyType(
    {CLUSTER_IP: "clusterIP", EXTERNAL_IP: "externalIPs", LOAD_BALANCER: "status.loadBalancer.ingress"}
)
API_SERVER = "the API server"
_API_SERVICE = ("default", "kubernetes")  # its endpoints are the API servers


@dataclass(frozen=True)
class User:
    """The user of an address. If `destinations` is not empty, it serves only those, and a Service that has all of them at
    the address replaces it without harm."""

    address: str
    name: str  # "Node n2", "the API server"
    destinations: frozenset[Destination] = frozenset()
    is_this_node: bool = False


@dataclass(frozen=True)
class Claim:
    """An address of a Service that somebody else uses."""

    address: str
    service: str  # NAMESPACE/NAME
    field: str
    user: User

    @property
    def text(self) -> str:
        return f"{self.address} of {self.user.name}: {self.field} of Service {self.service}"

    @property
    def is_felt_here(self) -> bool:
        """Whether binding harms this node. Of its own addresses it binds only clusterIPs; KUBE-IPVS-FILTER then rejects all
        ports of the address that no Service has."""
        return not self.user.is_this_node or self.field == _FIELDS[CLUSTER_IP]

    def as_error(self) -> BallastError:
        id = "rules-ipvs-address-in-use" if self.is_felt_here else "rules-ipvs-own-address"
        return MESSAGES.error(id, address=self.address, field=self.field, service=self.service, user=self.user.name)


def find_claims(view: FamilyView, others: Sequence[User] = ()) -> tuple[Claim, ...]:
    """Each combination of address, Service and user once. `others` are users that are not in the snapshot, such as
    gateways."""
    users = _users(view, others)
    claims: dict[Claim, None] = {}
    for frontend in view.frontends:
        for user in users.get(frontend.address, ()) if frontend.kind != NODE_PORT else ():
            if not user.destinations or not user.destinations <= _destinations_at(view, frontend.address):
                claim = _claim(frontend, user)
                claims[claim] = None
    return tuple(claims)


def bound_by_services(view: FamilyView) -> Mapping[str, Frontend]:
    """All addresses that ipvs binds, each with one of its frontends."""
    return {frontend.address: frontend for frontend in view.frontends if frontend.kind != NODE_PORT}


def describe(frontend: Frontend) -> str:
    return f"{_FIELDS[frontend.kind]} of Service {_title(frontend.service)}"


def _claim(frontend: Frontend, user: User) -> Claim:
    return Claim(frontend.address, _title(frontend.service), _FIELDS[frontend.kind], user)


def _title(service: ServicePort) -> str:
    return f"{service.namespace}/{service.name}"


def _users(view: FamilyView, others: Sequence[User]) -> Mapping[str, Sequence[User]]:
    """Users by address. If a Node has the address, other users are left out: an API server usually runs on a Node."""
    of_nodes: dict[str, list[User]] = {}
    for address, name in view.node_addresses:
        user = User(address, f"Node {name}", is_this_node=name == view.node.name)
        of_nodes.setdefault(address, []).append(user)
    users: dict[str, list[User]] = {}
    for user in (*_api_servers(view), *others):
        if user not in users.setdefault(user.address, []):
            users[user.address].append(user)
    return {**users, **of_nodes}


def _api_servers(view: FamilyView) -> Iterator[User]:
    for service in view.services:
        if (service.namespace, service.name) == _API_SERVICE:
            for endpoint in service.endpoints:
                yield User(endpoint.address, API_SERVER, frozenset([(service.protocol, endpoint.port)]))


def _destinations_at(view: FamilyView, address: str) -> frozenset[Destination]:
    return frozenset((frontend.protocol, frontend.port) for frontend in view.frontends if frontend.address == address)
