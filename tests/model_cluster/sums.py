# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Watches over what the nodes of a host promise together, after every write there is, by arithmetic of its own.

A node may have promised `allocatable - held`, where its balloon holds the smallest of desired, allocated and actual. The
sum over a host's nodes is never above its capacity less the reserve; where it was so at first, or since a balloon pod was
deleted, it never becomes more. And
what the pods of a host that are no balloons request is never above that either.
"""

from __future__ import annotations

from tests.model_cluster.amounts import ZERO, Pair, pair
from tests.model_cluster.kubelets import Kubelets, counted, held
from tests.model_cluster.store import DELETED, Change, Store

_LABEL = "balloons.ballast.dev/balloon"


class Sums:
    """`broken` says each time that the promise was not kept. `watch` begins; `reserve` of each host may be given."""

    def __init__(self, store: Store, kubelets: Kubelets) -> None:
        self._store = store
        self._kubelets = kubelets
        self._open: dict[str, Pair] = {}  # by node
        self._of: dict[str, str] = {}  # node to host
        self._nodes: dict[str, list[str]] = {}
        self._allowed: dict[str, Pair] = {}  # by host
        self._room: dict[str, Pair] = {}
        self._sum: dict[str, Pair] = {}
        self.seen = 0  # writes that were looked at
        self.broken: list[str] = []

    def watch(self, *, reserve: dict[str, Pair] | None = None) -> None:
        with self._store.lock:
            overheads: dict[str, Pair] = {}
            for node in self._store.all("nodes"):
                name, host = node["metadata"]["name"], node["status"]["nodeInfo"]["bootID"]
                capacity, allocatable = pair(node["status"]["capacity"]), pair(node["status"]["allocatable"])
                self._of[name], self._open[name] = host, self._open_of(name)
                self._nodes.setdefault(host, []).append(name)
                overheads[host] = overheads.get(host, ZERO).plus(capacity.minus(allocatable))
                self._room[host] = capacity
                self._sum[host] = self._sum.get(host, ZERO).plus(self._open[name])
            for host, overhead in overheads.items():
                self._room[host] = self._room[host].minus((reserve or {}).get(host, overhead))
                self._allowed[host] = self._room[host].most(self._sum[host])
            self._store.observers.append(self._look)

    def room(self, host: str) -> Pair:
        return self._room[host]

    def sum(self, host: str) -> Pair:
        return self._sum[host]

    def _open_of(self, node: str) -> Pair:
        found = self._store.get("nodes", node)
        left = pair(found["status"]["allocatable"]) if found else ZERO
        for pod in self._kubelets.pods(node):
            if _LABEL in (pod["metadata"].get("labels") or {}):
                left = left.minus(held(pod))
        return left

    def _promised(self, host: str) -> Pair:
        found = ZERO
        for node in self._nodes[host]:
            for pod in self._kubelets.pods(node):
                found = found.plus(ZERO if _LABEL in (pod["metadata"].get("labels") or {}) else counted(pod))
        return found

    def _look(self, change: Change) -> None:
        if change.collection != "pods" or change.item["spec"].get("nodeName") not in self._of:
            return
        self.seen += 1
        node = change.item["spec"]["nodeName"]
        host, after = self._of[node], self._open_of(node)
        self._sum[host] = self._sum[host].plus(after).minus(self._open[node])
        self._open[node] = after
        if change.kind == DELETED:  # of a balloon that somebody takes away: what it held is nobody's fault
            self._allowed[host] = self._allowed[host].most(self._sum[host])
        promised = self._promised(host)
        if not promised.fits(self._allowed[host]):
            self.broken.append(f"{host}: pods request {promised} above {self._allowed[host]}")
        if not self._sum[host].fits(self._allowed[host]):
            self.broken.append(
                f"{host}: {self._sum[host]} above {self._allowed[host]} as {change.item['metadata']['name']} changes"
            )
        self._allowed[host] = self._room[host].most(self._sum[host].least(self._allowed[host]))
