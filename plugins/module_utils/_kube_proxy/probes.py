# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tries connections from the node and from one of its pods. They bypass the takeover table, to test kube-proxy's rules.

What was reachable before a change must be reachable after it. Everything else says nothing about the change.
"""

from __future__ import annotations

import ipaddress
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from .._core.host.host import Host
from .._core.host.names import without_entry
from .._core.host.processes import list_processes, pod_uid
from .._core.text.errors import BallastError
from .._core.text.json_text import parse_json
from .._rules.backend import BYPASS_DSCP
from .messages import MESSAGES

API_SERVICE = "default/kubernetes"
_SECONDS = 2.0  # timeout of one attempt
_PODS = 32  # the most processes' networks that are examined to find a pod of this node
_NOT_TRIED = "could not be tried"

_Way = tuple[str, ...]  # a command prefix that runs a command in a network namespace
_HERE: _Way = ()

# Runs with `python -I -c` in the namespace to try from. A UDP server gets a DNS query for NS records of the root. Prints the
# source address that packets would have, and for each row why it was not reached, "" if it was.
_PROGRAM = f"""
import json, socket, sys
QUERY = bytes.fromhex("ba11010000010000000000000000020001")
def failure(address, port, protocol):
    six = ":" in address
    kind = socket.SOCK_STREAM if protocol == "TCP" else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET6 if six else socket.AF_INET, kind) as sock:
        sock.settimeout({_SECONDS})
        level, option = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if six else (socket.IPPROTO_IP, socket.IP_TOS)
        sock.setsockopt(level, option, {BYPASS_DSCP << 2})
        try:
            sock.connect((address, port))
            if protocol == "UDP":
                sock.send(QUERY)
                sock.recv(1)
            return ""
        except OSError as error:
            return error.strerror or str(error)
def own(address):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((address, 9))
            return sock.getsockname()[0]
        except OSError:
            return ""
request = json.load(sys.stdin)
print(json.dumps({{"own": own(request["own"]), "failures": [failure(*row) for row in request["rows"]]}}))
"""


@dataclass(frozen=True)
class Target:
    what: str  # "default/kubernetes", "kube-system/kube-dns node port"
    address: str
    port: int
    protocol: str

    def __str__(self) -> str:
        return f"{self.what} at {self.address} port {self.port}/{self.protocol}"


@dataclass(frozen=True)
class Try:
    target: Target
    origin: str  # "node" or "pod"

    def __str__(self) -> str:
        return f"{self.target} from the {self.origin}"


def targets(data: Mapping[str, Any], probe_service: str, node: str) -> list[Target]:
    """The targets in a snapshot: the API's own Service, and the operator's `probe_service` with its node ports."""
    services = {_name(item): item for item in data["items"] if item["kind"] == "Service"}
    if probe_service and probe_service not in services:
        raise MESSAGES.error("migrate-probe-service", name=probe_service)
    result: list[Target] = []
    for name in names(probe_service):
        if name in services:
            result.extend(_of_service(name, services[name]["spec"], _primary(data, node)))
    return result


def names(probe_service: str) -> list[str]:
    """The names of the Services that are tried."""
    return list(dict.fromkeys((API_SERVICE, *([probe_service] if probe_service else []))))


def try_targets(host: Host, targets: Sequence[Target]) -> dict[Try, str]:
    """Why each attempt failed, "" if it succeeded. Attempts from a pod are made only if this node has one."""
    origins = {"node": [_HERE]}
    pod = _pod(host)
    if pod:
        origins["pod"] = pod
    return {
        Try(target, origin): failure
        for origin, ways in origins.items()
        for target, failure in zip(targets, _ask(host, ways, targets)[1])
    }


def _of_service(name: str, spec: Mapping[str, Any], addresses: Mapping[int, str]) -> Iterator[Target]:
    ips = [ip for ip in spec.get("clusterIPs") or [spec.get("clusterIP")] if ip and ip != "None"]
    for port in spec.get("ports") or []:
        protocol = port.get("protocol", "TCP")
        if protocol not in ("TCP", "UDP"):
            continue
        for ip in ips:
            yield Target(name, ip, port["port"], protocol)
        for family in sorted({ipaddress.ip_address(ip).version for ip in ips}):
            if port.get("nodePort") and family in addresses:
                yield Target(f"{name} node port", addresses[family], port["nodePort"], protocol)


def _primary(data: Mapping[str, Any], node: str) -> dict[int, str]:
    """The node's own InternalIP in each family."""
    primary: dict[int, str] = {}
    for item in data["items"]:
        if item["kind"] == "Node" and item["metadata"]["name"] == node:
            for row in item.get("status", {}).get("addresses", []):
                if row.get("type") == "InternalIP":
                    primary.setdefault(ipaddress.ip_address(row["address"]).version, row["address"])
    return primary


def _pod(host: Host) -> list[_Way]:
    """The prefixes that enter a pod to which this node's links lead: one per process, because some live for one request
    only."""
    networks: dict[str, list[_Way]] = {}
    for process in sorted(list_processes(host), key=lambda process: process.pid):
        if process.own_network or pod_uid(process) is None:  # checked first: root may not read process 1's namespace
            continue
        network = host.readlink(f"/proc/{process.pid}/ns/net")
        if network:
            networks.setdefault(network, []).append(("nsenter", f"--net=/proc/{process.pid}/ns/net", "--"))
    for ways in islice(networks.values(), _PODS):
        if _is_linked(host, _ask(host, ways, [])[0]):
            return ways
    return []


def _is_linked(host: Host, address: str) -> bool:
    """Whether packets to `address` leave through a link of this node without another router."""
    if not address:
        return False
    try:
        routes = parse_json(host.run(["ip", "-j", "route", "get", address], timeout=10).stdout)
        return "gateway" not in routes[0] and routes[0].get("type") != "local"
    except (BallastError, ValueError, LookupError):
        return False


def _ask(host: Host, ways: Iterable[_Way], targets: Sequence[Target]) -> tuple[str, list[str]]:
    """The program's own address and the failures, with the first prefix that works: processes end, and some cannot be
    entered."""
    anywhere = "192.0.2.1"
    request = {"own": anywhere, "rows": [[target.address, target.port, target.protocol] for target in targets]}
    for enter in ways:
        try:
            done = host.run(
                [*enter, without_entry(sys.executable), "-I", "-c", _PROGRAM],
                stdin=json.dumps(request).encode(),
                timeout=10 + _SECONDS * len(targets),
            )
            answer = parse_json(done.stdout)
            return str(answer["own"]), [_line(failure) for failure in answer["failures"]]
        except (BallastError, ValueError, LookupError, TypeError):
            continue
    return "", [_NOT_TRIED] * len(targets)


def _line(failure: object) -> str:
    return failure if isinstance(failure, str) else _NOT_TRIED


def _name(item: Mapping[str, Any]) -> str:
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
