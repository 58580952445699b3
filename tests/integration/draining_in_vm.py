# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Connections through ipvs outlive the virtual servers that kube-proxy in mode nftables removes when it starts, as
test_rules_ipvs.py runs it in a virtual machine: a real ip_vs, and real connections that ask ten times a second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import (
    ipvs_connections,
    own_source,
    takeover_table,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.engine import ENGINE, CleanupRequest
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.takeover_table import takeover_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.backends import backend_named
from ansible_collections.ballast.kube.plugins.module_utils._rules.config import parse_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.compile import compile_rules, required_sysctls
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import IPVS, NFTABLES
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_addresses import LINK, own_addresses, read_links
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import parse_snapshot
from tests.bench import rules_cluster as cluster
from tests.integration import journal
from tests.integration.ipvs_in_vm import put
from tests.integration.kube_proxy import BRIDGE, CONFIG, NODE
from tests.integration.loaded_node import LoadedNode, Rates, loaded, loaded_node
from tests.integration.residue_in_vm import Node
from tests.load.running import Load, load

NUMBERS = (0, 1, 2)
RATES = Rates(new=20, outside=4, held=16)
FOREIGN = "-A -t 10.7.0.1:80 -s wrr\n-a -t 10.7.0.1:80 -r 10.9.9.8:80 -m -w 3\n"
_CALM_SECONDS = 3


class Served:
    """A node in mode ipvs, its load under way."""

    def __init__(self, node: Node, data: dict[str, Any], running: Load) -> None:
        self.node, self.data, self.running = node, data, running

    def load_new_rules(self) -> None:
        """The takeover table, and those of mode nftables by our own backend; node ports on all addresses, as ipvs has them."""
        config = takeover_config(CONFIG, IPVS)
        takeover_table.TakeoverTable(self.node, config, NODE).update(self.data)
        snapshot = parse_snapshot(
            self.data, node_name=NODE, node_ips=own_addresses(read_links(self.node)), config=config
        )
        view = snapshot.view(4)
        backend = backend_named(NFTABLES, self.node)
        table = backend.compile(view, parse_config(config, backend=NFTABLES, family=4, node=view.node).rules)
        backend.commit(backend.plan(table, None), self.node, None)

    def servers(self) -> int:
        lines = (self.node.read("/proc/net/ip_vs") or b"").splitlines()
        return sum(line.startswith((b"TCP", b"UDP")) for line in lines)

    def kube_proxy_starts(self) -> None:
        """What mode nftables does first (pkg/proxy/ipvs/cleanup.go): it flushes ip_vs, deletes the link by its name, the
        rules of iptables, and the sets."""
        self.node.run(["ipvsadm", "-C"], timeout=60)
        self.node.run(["ip", "link", "delete", LINK], timeout=60, check=False)
        for table in ("nat", "filter"):
            self.node.run(["iptables-legacy", "-t", table, "-F"], timeout=60)
            self.node.run(["iptables-legacy", "-t", table, "-X"], timeout=60)
        self.node.run(["ipset", "destroy"], timeout=60)
        assert self.servers() == 0

    def clean(self, **options: Any) -> dict[str, Any]:
        desired = CleanupRequest(NFTABLES, **options)
        ctx = Context(desired, self.node, Progress(NullSink(), feature="kube_proxy_cleanup"))
        plan = ENGINE.plan(desired, ENGINE.observe(ctx))
        ENGINE.apply(plan, ctx)
        assert ENGINE.verify(ctx) == []
        found: Any = ENGINE.as_result(plan)["connections"]
        return dict(found)

    def seen_since(self, began: float) -> Any:
        return self.running.summary(since=began, until=time.monotonic() + _CALM_SECONDS)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with ExitStack() as undo:
        undo.enter_context(journal.link(BRIDGE, "type", "bridge"))
        made = undo.enter_context(loaded_node("drain"))
        node, data = in_ipvs_mode(made)
        running = undo.enter_context(load(made.clients(NUMBERS, RATES), tmp_path))
        running.wait_for_held()
        yield Served(node, data, running)


def in_ipvs_mode(made: LoadedNode) -> tuple[Node, dict[str, Any]]:
    """The node with rules of ipvs for the Services under load, and these Services."""
    node = Node(made.host.namespace)
    data: dict[str, Any] = {"kind": "List", "items": [cluster.node(), *loaded(NUMBERS)]}
    snapshot = parse_snapshot(data, node_name=NODE, node_ips=own_addresses(read_links(node)), config=CONFIG)
    config = parse_config(CONFIG, backend=IPVS, family=4, node=snapshot.view(4).node).rules
    values = [f"{name}={value}" for name, value in required_sysctls(config, kernel=(6, 1))]
    node.run(["sysctl", "-qw", *values], timeout=60)
    put(node, compile_rules(snapshot.view(4), config), 4)
    node.run(["ipvsadm", "-R"], stdin=FOREIGN.encode(), timeout=60)
    return node, data


def test_connections_outlive_the_virtual_servers_that_kube_proxy_removes(served: Served) -> None:
    node = served.node
    time.sleep(2)
    own_source.use_own_address(node)
    served.load_new_rules()
    began = time.monotonic()
    draining = ipvs_connections.hold(node, drain_seconds=600)
    assert draining is not None
    served.kube_proxy_starts()
    assert ipvs_connections.restore(node, draining) == len(draining.own) + 1
    ipvs_connections.settle(node, draining)
    takeover_table.remove(node)
    seen = served.seen_since(began)
    assert (seen.held.open, seen.held.broken, seen.held.waiting) == (RATES.held, 0, False), seen
    assert seen.total.failures == 0, seen

    # A clean-up keeps them, and what they need.
    began = time.monotonic()
    kept = served.clean()
    assert (kept["cut"], kept["kept"] >= RATES.held) == (0, True)
    assert node.setting("net.ipv4.vs.conntrack") == "1"
    seen = served.seen_since(began)
    assert (seen.held.broken, seen.held.waiting, seen.total.failures) == (0, False, 0), seen

    # By force it says what it cuts, and does.
    cut = served.clean(cut_connections=True)
    assert (cut["cut"] >= RATES.held, cut["kept"]) == (True, 0)
    assert served.servers() == 1, "of the other program"
    seen = served.seen_since(time.monotonic())
    assert seen.total.failures == 0, seen
    assert seen.held.broken or seen.held.waiting


def test_without_it_they_are_cut(served: Served) -> None:
    """What the load sees of a kube-proxy that starts in mode nftables."""
    own_source.use_own_address(served.node)
    served.load_new_rules()
    began = time.monotonic()
    served.kube_proxy_starts()
    seen = served.seen_since(began)
    assert seen.held.broken or seen.held.waiting
