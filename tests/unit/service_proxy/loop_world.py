# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An API and a kernel in memory with the loop between them, and the Services and slices that tests put there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, HostError
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import SERVICE_PROXY_TABLE as TABLE
from ansible_collections.ballast.kube.plugins.module_utils._rules.config import parse_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import FamilyView, Frontend
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Table
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.transaction import Operation, stages
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import parse_snapshot
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy import ports
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.loop import Loop
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.netlink import Commit
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.objects import Seen, gone, key_of, read_object
from tests.unit.rules.nftables.kernel import RefusedError, commit
from tests.unit.service_proxy.objects import NAMES, NODE_NAME, Item, metadata

FAMILIES = (4, 6)
DOCUMENT = {"clusterCIDR": "10.1.0.0/16"}
VERSIONS = {
    "Service": "v1",
    "EndpointSlice": "discovery.k8s.io/v1",
    "Node": "v1",
    "ServiceCIDR": "networking.k8s.io/v1",
}


@dataclass
class FakeKernel:
    """Takes what a kernel takes, but for elements whose key or target has `poison` in it."""

    tables: dict[int, Optional[Table]] = field(default_factory=lambda: dict.fromkeys(FAMILIES))
    poison: str = ""
    broken: tuple[int, ...] = ()  # families in which nothing works
    commits: list[int] = field(default_factory=list)
    reads: int = 0
    refusals: int = 0
    intruded: dict[int, Commit] = field(default_factory=dict)

    def read(self, family: int) -> Optional[Table]:
        self.reads += 1
        self._work(family)
        return self.tables[family]

    def commit(self, operations: Sequence[Operation]) -> None:
        if operations:
            family = 6 if operations[0].family == "ip6" else 4
            for stage in stages(operations):
                self.tables[family] = self._try(stage)
            self.commits.append(len(operations))

    def check(self, operations: Sequence[Operation]) -> None:
        if operations:
            self._try(operations)

    def intrusions(self) -> Mapping[int, Commit]:
        found, self.intruded = self.intruded, {}
        return found

    def intrude(self, family: int, table: Optional[Table]) -> None:
        self.tables[family] = table
        self.intruded[family] = Commit(1, frozenset(((family, TABLE),)), 4711, "nft")

    def _work(self, family: int) -> None:
        if family in self.broken:
            raise HostError("nft is not there", id="x")

    def _try(self, operations: Sequence[Operation]) -> Optional[Table]:
        family = 6 if operations[0].family == "ip6" else 4
        self._work(family)
        if self.poison and any(
            operation.kind == "add element" and self.poison in operation.target.split() for operation in operations
        ):
            raise HostError(f"refused: {self.poison}", id="x")
        try:
            return commit(operations, self.tables[family])
        except RefusedError as error:
            self.refusals += 1
            raise HostError(f"refused: {error}", id="x") from error


@dataclass
class FakeApi:
    """All objects by kind and key, and what the loop has not taken of them."""

    complete: bool = True
    lost: Optional[tuple[float, BallastError]] = None
    items: dict[tuple[str, tuple[str, str]], Item] = field(default_factory=dict)
    waiting: dict[tuple[str, tuple[str, str]], Seen] = field(default_factory=dict)

    def take(self) -> list[Seen]:
        if not self.complete:
            return []
        waiting, self.waiting = self.waiting, {}
        return list(waiting.values())

    def put(self, kind: str, item: Item) -> None:
        key = (kind, key_of(item))
        self.items[key] = item
        self.waiting[key] = read_object(kind, item)

    def remove(self, kind: str, key: tuple[str, str]) -> None:
        if self.items.pop((kind, key), None) is not None:
            self.waiting[kind, key] = gone(kind, key)

    def views(self, addresses: list[str]) -> dict[int, FamilyView]:
        listed = [
            {**item, "kind": kind, "apiVersion": VERSIONS[kind]} for (kind, _key), item in sorted(self.items.items())
        ]
        snapshot = parse_snapshot(
            {"kind": "List", "items": listed}, node_name=NODE_NAME, node_ips=addresses, config=DOCUMENT
        )
        return {family: snapshot.view(family) for family in FAMILIES}

    def expected(self, addresses: list[str]) -> dict[int, Table]:
        tables = {}
        for family, view in self.views(addresses).items():
            config = parse_config(DOCUMENT, backend="nftables", family=family, node=view.node).rules
            tables[family] = compile_rules(view, config, table=TABLE, owner="service-proxy")
        return tables


class World:
    def __init__(self) -> None:
        self.api, self.kernel = FakeApi(), FakeKernel()
        self.addresses = ["192.168.1.10", "10.50.0.10"]
        self.reports: list[ports.Report] = []
        self.cleaned: list[tuple[int, Sequence[Frontend], Sequence[Frontend], Collection[str]]] = []
        self.start()

    def start(self) -> None:
        """A program that starts knows nothing but what the API and the kernel have."""
        self.loop = Loop(
            ports.LoopSettings(NODE_NAME, DOCUMENT),
            self.api,
            self.kernel,
            self.reports.append,
            families=FAMILIES,
            addresses=lambda: list(self.addresses),
            clean=lambda *each: self.cleaned.append(each),
        )
        self.api.waiting = {key: read_object(key[0], item) for key, item in self.api.items.items()}

    def check(self) -> None:
        self.loop._not_before = self.loop._retry_at = 0.0
        self.loop.turn()
        assert self.kernel.tables == self.api.expected(self.addresses)

    def take_cleaned(self) -> list[tuple[int, list[str], list[str]]]:
        """Family, and the Services that the destinations were of and are of."""
        cleaned, self.cleaned = self.cleaned, []
        return [(family, titles(before), titles(after)) for family, before, after, _own in cleaned]

    def of(self, kind: type) -> list[Any]:
        return [report for report in self.reports if isinstance(report, kind)]


def titles(frontends: Sequence[Frontend]) -> list[str]:
    return sorted(frontend.service.title for frontend in frontends)


def web(name: str = "a") -> Item:
    ip = f"10.96.0.{NAMES.index(name) + 1}"
    spec = {"clusterIP": ip, "clusterIPs": [ip], "ipFamilies": ["IPv4"], "ports": [{"name": "http", "port": 80}]}
    return {"metadata": metadata(name), "spec": spec}


def endpoints(name: str, *addresses: str, **labels: str) -> Item:
    return {
        "metadata": metadata(f"{name}-x", labels={"kubernetes.io/service-name": name}, **labels),
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{"addresses": [address], "nodeName": "n2"} for address in addresses],
    }
