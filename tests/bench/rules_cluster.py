# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects that the benchmark of service rules is about, the same for ours and for kube-proxy, and how they get into the API.

A Service has one TCP port, a cluster IP and four endpoints on other nodes; one more, `roll`, has a hundred.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import ssl
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.integration.kube_proxy import NODE, NODE_IP, Api

ENDPOINTS, ROLL_ENDPOINTS = 4, 100
PORT, TARGET_PORT = 80, 8080
SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/16")
ENDPOINT_NETWORK = ipaddress.ip_network("10.128.0.0/10")
ADDED, ROLL = "added", "roll"
_FIRST = 256  # the first cluster IP: the API server keeps some low ones for itself
_ROLLED = 2**20  # where, in the network of endpoints, those of `roll` begin: behind any others
_CONNECTIONS = 24
_CREATED = "2026-01-01T00:00:00Z"
_SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
_PATHS = {"Service": "/api/v1/namespaces/default/services", "EndpointSlice": _SLICES}

Item = dict[str, Any]


def name(number: int) -> str:
    return f"s{number:05}"


def cluster_ip(number: int) -> str:
    return str(SERVICE_NETWORK[_FIRST + number])


def endpoint_ip(number: int, slot: int = 0) -> str:
    return str(ENDPOINT_NETWORK[1 + number * ENDPOINTS + slot])


def numbered(start: int, end: int) -> Iterator[Item]:
    """Slices before their Services, so that a kube-proxy that runs meanwhile never sees a Service without endpoints."""
    for number in range(start, end):
        yield endpoint_slice(name(number), [endpoint_ip(number, slot) for slot in range(ENDPOINTS)])
        yield service(name(number), cluster_ip(number))


def rolled(generation: int) -> Item:
    """The slice of the Service with a hundred endpoints; each generation has other ones."""
    start = _ROLLED + generation * ROLL_ENDPOINTS
    return endpoint_slice(ROLL, [str(ENDPOINT_NETWORK[start + slot]) for slot in range(ROLL_ENDPOINTS)])


def moved(number: int, generation: int) -> Item:
    """The slice of a numbered Service of which one endpoint has moved; back where it was in generation 0."""
    addresses = [endpoint_ip(number, slot) for slot in range(ENDPOINTS)]
    if generation:
        addresses[0] = str(ENDPOINT_NETWORK[2 * _ROLLED - generation])
    return endpoint_slice(name(number), addresses)


def others() -> list[Item]:
    """What there is besides numbered Services."""
    last = int(SERVICE_NETWORK.num_addresses) - 10
    return [
        rolled(0),
        service(ROLL, str(SERVICE_NETWORK[last])),
        endpoint_slice(ADDED, [str(ENDPOINT_NETWORK[2 * _ROLLED + slot]) for slot in range(ENDPOINTS)]),
    ]


def added() -> Item:
    return service(ADDED, str(SERVICE_NETWORK[int(SERVICE_NETWORK.num_addresses) - 11]))


def node() -> Item:
    addresses = [{"type": "InternalIP", "address": NODE_IP}]
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": {"addresses": addresses}}


def service(name: str, address: str) -> Item:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": _CREATED},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address,
            "clusterIPs": [address],
            "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": PORT, "protocol": "TCP", "targetPort": TARGET_PORT}],
        },
    }


def endpoint_slice(name: str, addresses: Sequence[str]) -> Item:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": name},
            "creationTimestamp": _CREATED,
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": TARGET_PORT, "protocol": "TCP"}],
        "endpoints": [
            {
                "addresses": [address],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "nodeName": f"n{2 + slot % ENDPOINTS}",
            }
            for slot, address in enumerate(addresses)
        ],
    }


def snapshot(services: int) -> Item:
    """Of so many Services, where no API holds them."""
    return {"apiVersion": "v1", "kind": "List", "items": [node(), *numbered(0, services), *others()]}


def changed(base: Mapping[str, Any], item: Item) -> Item:
    """`base` with `item` in the place of the object of its kind and name, or added to it."""
    kept: Item = without(base, item)
    return {**kept, "items": [*kept["items"], item]}


def without(base: Mapping[str, Any], item: Item) -> Item:
    return {**base, "items": [one for one in base["items"] if _identity(one) != _identity(item)]}


def _identity(item: Mapping[str, Any]) -> tuple[str, str, str]:
    return (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])


class Loader:
    """Writes objects through the API, over a few dozen connections at once."""

    def __init__(self, api: Api) -> None:
        config = json.loads(api.kubeconfig("admin"))
        user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
        self._tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._tls.load_cert_chain(user["client-certificate"], user["client-key"])
        address = urllib.parse.urlsplit(cluster["server"])
        self._at = (str(address.hostname), int(address.port or 443))
        self._own = threading.local()  # a connection for each thread
        self._opened: list[http.client.HTTPSConnection] = []

    def close(self) -> None:
        while self._opened:
            self._opened.pop().close()

    def create(self, items: Sequence[Item]) -> None:
        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            list(pool.map(self._create, items))

    def replace(self, item: Item) -> None:
        self._ask("PUT", f"{_PATHS[item['kind']]}/{item['metadata']['name']}", item)

    def delete(self, item: Item) -> None:
        self._ask("DELETE", f"{_PATHS[item['kind']]}/{item['metadata']['name']}", None)

    def _create(self, item: Item) -> None:
        self._ask("POST", _PATHS[item["kind"]], item)

    def _ask(self, method: str, path: str, body: object) -> None:
        if not hasattr(self._own, "connection"):
            self._own.connection = http.client.HTTPSConnection(*self._at, context=self._tls, timeout=120)
            self._opened.append(self._own.connection)
        connection = self._own.connection
        connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        told = answer.read()
        if answer.status not in (200, 201):
            raise RuntimeError(f"{method} {path}: {answer.status} {told.decode(errors='replace')[:500]}")


def kubectl_snapshot(bin_dir: str, kubeconfig: Path, to: Path) -> None:
    """As a user takes it."""
    argv = [f"{bin_dir}/kubectl", "--kubeconfig", str(kubeconfig), "--cache-dir", str(to.parent / "kubectl")]
    with to.open("w", encoding="utf-8") as file:
        subprocess.run(
            [*argv, "get", "services,endpointslices,nodes", "-A", "-o", "json"], check=True, stdout=file, timeout=300
        )
