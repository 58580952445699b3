# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a long run of our service proxy is judged by: its memory over time, and what the kernel then has that the API does not say."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.connection import connect
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import SERVICE_PROXY_TABLE
from ansible_collections.ballast.kube.plugins.module_utils._rules.config import parse_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables import transaction
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.layout import SERVICE_PROXY
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_addresses import own_addresses, read_links
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import parse_snapshot
from tests.bench.rules_nodes import Node
from tests.bench.service_proxy_programs import Running
from tests.integration.followed_api import PATHS, VERSIONS
from tests.integration.kube_proxy import CONFIG, NODE

EVERY_SECONDS = 5.0
_FAMILIES = {4: "ip", 6: "ip6"}
_SETTLE_SECONDS = 30.0


class Sample(NamedTuple):
    at: float  # seconds since the first one
    processor: float
    resident: int  # bytes


@contextmanager
def sampled(running: Running) -> Iterator[list[Sample]]:
    """A list that grows until the block ends."""
    ended, samples, begun = threading.Event(), list[Sample](), time.monotonic()

    def sample() -> None:
        used = running.usage()
        samples.append(Sample(round(time.monotonic() - begun, 1), round(used.processor, 2), used.resident))

    def go_on() -> None:
        while not ended.wait(EVERY_SECONDS):
            sample()

    sample()
    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()
    sample()


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the straight line with the least squares; 0 for fewer than two points."""
    if len(points) < 2:
        return 0.0
    middle_x, middle_y = (sum(each) / len(points) for each in zip(*points))
    spread = sum((x - middle_x) ** 2 for x, _y in points)
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / spread if spread else 0.0


def _snapshot(kubeconfig: Path) -> dict[str, Any]:
    """All that a service proxy follows, by pages: it is too much for one answer."""
    api = connect(LocalHost(), str(kubeconfig))
    items = [
        {"apiVersion": VERSIONS[kind], "kind": kind, **item}
        for kind, path in PATHS.items()
        for page in api.pages(path)
        for item in page.items
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def differences(kubeconfig: Path, made: Node) -> int:
    """Operations between the kernel's tables and those of all that the API says; what a short wait does not change."""
    addresses = own_addresses(read_links(made.host))
    snapshot = parse_snapshot(_snapshot(kubeconfig), node_name=NODE, node_ips=addresses, config=CONFIG)
    expected = {}
    for family in _FAMILIES:
        view = snapshot.view(family)
        config = parse_config(CONFIG, backend="nftables", family=family, node=view.node).rules
        expected[family] = compile_rules(view, config, table=SERVICE_PROXY_TABLE, owner=SERVICE_PROXY)
    end = time.monotonic() + _SETTLE_SECONDS
    while True:
        live = {family: transaction.read(made.host, name, SERVICE_PROXY_TABLE) for family, name in _FAMILIES.items()}
        found = sum(len(transaction.plan(expected[family], live[family])) for family in _FAMILIES)
        if not found or time.monotonic() > end:
            return found
