# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requested control plane: the options as a value, with all input errors reported at once."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Optional

from .._core.host.names import is_name, join_name
from .._core.text.errors import BallastError, Problems
from .._core.text.ip_families import Network, parse_networks, with_port
from .aggregation.api_services import LISTED, OFF, ON, Aggregation, ApiService, parse_aggregation
from .messages import MESSAGES
from .profiles.arguments import Arguments, find_argument_problems, parse_arguments
from .profiles.jwt import find_jwt_problems
from .profiles.options import (
    ETCD_PATHS,
    NONE,
    Encryption,
    ExistingEtcd,
    find_option_problems,
    parse_choice,
    parse_encryption,
    parse_existing_etcd,
)
from .profiles.profiles import (
    CONTROLLER_MANAGER,
    EMBEDDED,
    ETCD,
    EXTERNAL,
    FULL,
    GENERIC_API_SERVER,
    SCHEDULER,
    Choice,
    Composition,
    compose,
    find_problems,
)

PRESENT, STOPPED, ABSENT_STATE = "present", "stopped", "absent"

# option: default. All listen on `address`; the defaults are kubeadm's.
PORTS: dict[str, int] = {
    "secure_port": 6443,
    "etcd_client_port": 2379,
    "etcd_peer_port": 2380,
    "controller_manager_port": 10257,
    "scheduler_port": 10259,
}

MEMBERS = (1, 3, 5)  # an even number survives no more failures than the odd number below it
SERVICE_CIDR, POD_CIDR = "10.96.0.0/16", "10.244.0.0/16"  # defaults for control planes with pods
# By IP version: lengths that kube-apiserver accepts and that leave room for the Services of every cluster.
SERVICE_PREFIXES = {4: range(12, 29), 6: range(108, 125)}
OLDEST_VERSION = (1, 34)  # AuthenticationConfiguration is apiserver.config.k8s.io/v1 from 1.34 on
_REQUIRED = ("kubernetes_version", "bin_dir", "address")
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)", re.ASCII)
# Paths appear in command lines, unit files and scripts; some targets separate their parts by a blank.
_PATH = re.compile(r"/[-A-Za-z0-9._/]*", re.ASCII)
_DOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


@dataclass(frozen=True)
class Node:
    """A kubelet that gets credentials."""

    name: str
    addresses: tuple[str, ...]
    service_proxy: bool = False  # whether its ballast-service-proxy gets credentials too


@dataclass(frozen=True)
class ControlPlaneRequest:
    state: str
    state_dir: str
    name: str
    choice: Choice
    aggregation: Aggregation
    existing_etcd: Optional[ExistingEtcd]
    encryption: Encryption
    audit: str  # NONE or one of AUDIT_LEVELS
    jwt: tuple[Mapping[str, Any], ...]  # in the form of `jwt` in AuthenticationConfiguration
    arguments: Arguments
    bin_dir: str
    address: str
    ports: tuple[tuple[str, int], ...]  # in the form of PORTS
    service_cidr: str  # of one IP family, or of both, separated by a comma; empty without pods
    pod_cidr: str
    cluster_domain: str
    extra_sans: tuple[str, ...]
    nodes: tuple[Node, ...]
    certificate_days: int
    renew_certificates: bool
    etcd_fsync: bool
    kubeconfig: str
    members: int  # of etcd, each with its own API server, controller manager and scheduler
    number: int = 1  # of the member whose processes `each_member` describes

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> ControlPlaneRequest:
        """Raises Problems with every input error."""
        aggregation, aggregation_problems = parse_aggregation(
            params["aggregation"], profile=str(params["profile"]), metrics=str(params["aggregation_metrics"] or "")
        )
        choice = parse_choice(params, aggregation=aggregation.mode != OFF)
        Problems.raise_if(_problems(params, choice, aggregation_problems))
        state_dir = str(params["state_dir"]).rstrip("/")
        of_pods = choice.profile == FULL
        return cls(
            state=str(params["state"]),
            state_dir=state_dir,
            name=str(params["name"]),
            choice=choice,
            aggregation=aggregation,
            existing_etcd=parse_existing_etcd(params, choice, mark=join_name(str(params["name"]))),
            encryption=parse_encryption(params),
            audit=str(params["audit"] or NONE),
            jwt=tuple(params["jwt"] or ()),
            arguments=parse_arguments(params),
            bin_dir=str(params["bin_dir"] or "").rstrip("/"),
            address=str(params["address"] or ""),
            ports=tuple((option, int(params[option])) for option in PORTS),
            service_cidr=str(params["service_cidr"] or SERVICE_CIDR) if of_pods else "",
            pod_cidr=str(params["pod_cidr"] or POD_CIDR) if of_pods else "",
            cluster_domain=str(params["cluster_domain"]),
            extra_sans=tuple(sorted(set(params["extra_sans"]))),
            nodes=tuple(
                Node(
                    name=node["name"],
                    addresses=tuple(sorted(set(node["addresses"]))),
                    service_proxy=bool(node.get("service_proxy")),
                )
                for node in params["nodes"]
            ),
            certificate_days=int(params["certificate_days"]),
            renew_certificates=bool(params["renew_certificates"]),
            etcd_fsync=bool(params["etcd_fsync"]),
            kubeconfig=str(params["kubeconfig"] or os.path.join(state_dir, "admin.kubeconfig")),
            members=int(params["members"]),
        )

    @property
    def profile(self) -> str:
        return self.choice.profile

    @property
    def kubernetes_version(self) -> str:
        """`1.37.1`"""
        return self.choice.version

    @property
    def composition(self) -> Composition:
        """What runs and is served, as it follows from the choice."""
        return _composition(self.choice)

    @property
    def api_services(self) -> tuple[ApiService, ...]:
        return self.aggregation.api_services

    @property
    def has_egress(self) -> bool:
        """Whether the agent connects the API server with listed extension API servers."""
        return self.aggregation.mode == LISTED

    @property
    def has_agent(self) -> bool:
        """Whether an agent keeps the availability of APIServices. Without a list, kube-apiserver and hyper-mini do it themselves."""
        return self.has_egress or (self.aggregation.mode == ON and GENERIC_API_SERVER in self.composition.processes)

    @property
    def has_pods(self) -> bool:
        """Whether it serves pods, and with them nodes and Services."""
        return self.profile == FULL

    @property
    def is_balanced(self) -> bool:
        """Whether a load balancer has `address`, and the members listen elsewhere."""
        return self.members > 1

    @property
    def each_member(self) -> tuple[ControlPlaneRequest, ...]:
        """This request for each member, which decides what `in_member` names and what `listen_address` returns."""
        return tuple(replace(self, number=number) for number in range(1, self.members + 1))

    def in_member(self, name: str) -> str:
        """The name of a process, file or directory that each member has: `etcd`, `etcd-2`."""
        return name if self.number == 1 else f"{name}-{self.number}"

    @property
    def listen_address(self) -> str:
        """The address of this member: 127.97.0.2, 127.97.0.3 and so on where `address` is 10.97.0.1. Other machines cannot reach
        it. Control planes on one machine do not collide if the last three numbers of their addresses differ by more than their members."""
        if not self.is_balanced:
            return self.address
        loopback = ipaddress.IPv4Network("127.0.0.0/8")
        return str(loopback[(int(ipaddress.IPv4Address(self.address)) + self.number) % loopback.num_addresses])

    @property
    def listens(self) -> tuple[str, ...]:
        """The options of the ports on which processes of the control plane listen."""
        return _listening(self.choice)

    def port(self, option: str) -> int:
        """The port of an option in PORTS, such as `secure_port`."""
        return dict(self.ports)[option]

    def at(self, *parts: str) -> str:
        """A path in the state directory."""
        return os.path.join(self.state_dir, *parts)

    def pki(self, *parts: str) -> str:
        """A path in the directory of keys and certificates."""
        return self.at("pki", *parts)

    @property
    def sv_dir(self) -> str:
        """The directory of the supervised services."""
        return self.at("sv")

    @property
    def log_dir(self) -> str:
        return self.at("log")

    @property
    def mark(self) -> str:
        """`ballast-lab`, the prefix of every name of this control plane on the machine."""
        return join_name(self.name)

    @property
    def cgroup(self) -> str:
        """The cgroup above those of the processes, below the root of each hierarchy."""
        # systemd reads each - as a level of nesting.
        return join_name(self.name.replace("-", "_"), "plane")

    @property
    def endpoint(self) -> str:
        """The URL at which clients reach the API server, or the load balancer before several."""
        return f"https://{with_port(self.address, self.port('secure_port'))}"

    @property
    def service_addresses(self) -> list[str]:
        """Addresses of the Service `kubernetes`: it has the first of the primary IP family, and would have that of the other family."""
        return [str(network[1]) for network in parse_networks(self.service_cidr)]


@lru_cache(maxsize=8)
def _composition(choice: Choice) -> Composition:
    return compose(choice)


def _listening(choice: Choice) -> tuple[str, ...]:
    processes = _composition(choice).processes
    rows = [
        (True, "secure_port"),
        (ETCD in processes or choice.etcd == EMBEDDED, "etcd_client_port"),
        (ETCD in processes, "etcd_peer_port"),
        (CONTROLLER_MANAGER in processes, "controller_manager_port"),
        (SCHEDULER in processes, "scheduler_port"),
    ]
    return tuple(option for is_open, option in rows if is_open)


def _problems(params: Mapping[str, Any], choice: Choice, of_aggregation: list[BallastError]) -> list[BallastError]:
    """The input errors, in the order of the documentation."""
    faults = _path_problems(params)
    if params["state"] == ABSENT_STATE:
        return faults
    faults += [
        MESSAGES.error("plane-option-missing", option=option, state=params["state"])
        for option in _REQUIRED
        if not params[option]
    ]
    if not is_name(str(params["name"])):
        faults.append(MESSAGES.error("plane-name", option="name", value=params["name"]))
    of_version = _version_problems(params["kubernetes_version"])
    # The table of resources is looked up by version.
    is_known = bool(params["kubernetes_version"]) and not of_version
    of_choice = find_problems(choice) if is_known else []
    faults += [*of_version, *of_choice, *of_aggregation, *find_option_problems(params, choice)]
    faults += find_jwt_problems(params["jwt"] or (), cluster_domain=str(params["cluster_domain"]))
    if params["address"] and not _is_address(params["address"]):
        faults.append(MESSAGES.error("plane-address", option="address", value=params["address"]))
    faults += _member_problems(params, choice)
    faults += _port_problems(params, _listening(choice) if is_known and not of_choice else tuple(PORTS))
    if choice.profile == FULL:
        faults += _network_problems(params)
    if not _DOMAIN.fullmatch(str(params["cluster_domain"])):
        faults.append(MESSAGES.error("plane-domain", option="cluster_domain", value=params["cluster_domain"]))
    faults += [
        MESSAGES.error("plane-domain", option=f"extra_sans[{number}]", value=name)
        for number, name in enumerate(params["extra_sans"])
        if not _is_address(name) and not _DOMAIN.fullmatch(name)
    ]
    faults += [*_node_problems(params["nodes"]), *find_argument_problems(params["arguments"], params["feature_gates"])]
    if not 1 <= int(params["certificate_days"]) <= 3650:
        faults.append(MESSAGES.error("plane-certificate-days", value=params["certificate_days"]))
    return faults


def _path_problems(params: Mapping[str, Any]) -> list[BallastError]:
    return [
        MESSAGES.error("plane-path", option=option, value=params[option])
        for option in ("state_dir", "bin_dir", "kubeconfig", *ETCD_PATHS)
        if params[option] and (not _PATH.fullmatch(params[option]) or ".." in params[option].split("/"))
    ]


def _version_problems(version: object) -> list[BallastError]:
    if not version:
        return []
    match = _VERSION.fullmatch(str(version))
    if match is None:
        return [MESSAGES.error("plane-version", value=version)]
    if (int(match[1]), int(match[2])) < OLDEST_VERSION:
        return [MESSAGES.error("plane-version-too-old", value=version, oldest=".".join(map(str, OLDEST_VERSION)))]
    return []


def _member_problems(params: Mapping[str, Any], choice: Choice) -> list[BallastError]:
    members = int(params["members"])
    if members not in MEMBERS:
        return [MESSAGES.error("plane-members", value=members, allowed=", ".join(map(str, MEMBERS)))]
    if members > 1 and (choice.profile, choice.etcd) != (FULL, EXTERNAL):
        return [MESSAGES.error("plane-members-profile", value=members)]
    return []


def _port_problems(params: Mapping[str, Any], listening: Sequence[str]) -> list[BallastError]:
    faults: list[BallastError] = []
    taken: dict[int, str] = {}
    for option in listening:
        port = int(params[option])
        if not 1 <= port <= 65535:
            faults.append(MESSAGES.error("plane-port", option=option, value=port))
        elif port in taken:
            faults.append(MESSAGES.error("plane-port-twice", option=option, value=port, other=taken[port]))
        taken[port] = option
    return faults


def _network_problems(params: Mapping[str, Any]) -> list[BallastError]:
    faults: list[BallastError] = []
    networks: dict[str, tuple[Network, ...]] = {"service_cidr": (), "pod_cidr": ()}
    for option, default in (("service_cidr", SERVICE_CIDR), ("pod_cidr", POD_CIDR)):
        try:
            networks[option] = parse_networks(params[option] or default)
        except ValueError:
            faults.append(MESSAGES.error("plane-cidr", option=option, value=params[option]))
    for service in networks["service_cidr"]:
        if service.prefixlen not in SERVICE_PREFIXES[service.version]:
            faults.append(MESSAGES.error("plane-cidr-size", value=service))
        faults += [
            MESSAGES.error("plane-cidr-overlap", option="pod_cidr", value=pod, other=f"service_cidr {service}")
            for pod in networks["pod_cidr"]
            if service.overlaps(pod)
        ]
    if params["address"] and _is_address(params["address"]):
        address = ipaddress.ip_address(params["address"])
        faults += [
            MESSAGES.error("plane-cidr-overlap", option=option, value=network, other=f"address {address}")
            for option, values in networks.items()
            for network in values
            if address in network
        ]
        primary = networks["service_cidr"][:1]
        if primary and primary[0].version != address.version:
            faults.append(MESSAGES.error("plane-address-family", address=address, value=primary[0]))
    return faults


def _node_problems(nodes: list[Mapping[str, Any]]) -> list[BallastError]:
    faults: list[BallastError] = []
    names: set[str] = set()
    for number, node in enumerate(nodes):
        if not is_name(str(node["name"])):
            faults.append(MESSAGES.error("plane-name", option=f"nodes[{number}].name", value=node["name"]))
        if node["name"] in names:
            faults.append(MESSAGES.error("plane-node-twice", value=node["name"]))
        names.add(node["name"])
        faults += [
            MESSAGES.error("plane-address", option=f"nodes[{number}].addresses", value=address)
            for address in node["addresses"]
            if not _is_address(address)
        ]
    return faults


def _is_address(text: object) -> bool:
    """Only in the form in which certificates and the kernel print it."""
    try:
        return str(ipaddress.ip_address(str(text))) == text
    except ValueError:
        return False
