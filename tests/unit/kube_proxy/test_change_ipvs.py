# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A change of a node's kube-proxy from mode ipvs or to it: connections go on, and have the node's own addresses."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import drain_record, switch
from tests.unit.kube_proxy import draining_node
from tests.unit.kube_proxy.fake_node import Node
from tests.unit.kube_proxy.mode_changes import KINDS, apply, changed, shrink


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
def test_beside_an_ipvs_that_comes_and_goes_again_connections_of_the_node_do_not_have_its_addresses(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, found = Node(kind, mode="nftables"), []
    node.lost = {"ipvs"}
    monkeypatch.setattr(
        switch.own_source, "use_own_address", lambda _host: found.append((node.mode, bool(node.tables)))
    )
    with pytest.raises(BallastError):
        apply(node, node.asked(mode="ipvs"))
    made, came, left = ("nftables", False), ("ipvs", True), ("ipvs", True)
    assert found == [made, came, left]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["nftables", "iptables"])
def test_connections_of_ipvs_go_on_after_the_change_and_after_the_way_back(kind: str, mode: str) -> None:
    node, kernel = in_ipvs(kind)
    was_open, weights = dict(kernel.open), kernel.weights()
    begun = node.host.monotonic()
    apply(node, node.asked(mode=mode, drain_seconds=600))
    assert node.host.monotonic() - begun < 10, "the change waits for no connection"
    assert (node.mode, node.left(), kernel.open) == (mode, [], was_open)
    assert kernel.weights()[draining_node.WEB] == "0"
    assert draining_node.HIDDEN not in kernel.links
    draining = drain_record.describe(node.host)
    assert draining is not None
    assert draining["connections"] == 5
    apply(node, node.asked(state="previous"))
    assert (node.mode, node.left(), kernel.open) == ("ipvs", [], was_open)
    assert {key: weights[key] for key in kernel.weights()} == kernel.weights()
    assert drain_record.describe(node.host) is None


@pytest.mark.parametrize("wrong", ["unfit", "lost"])
def test_a_failed_change_gives_ipvs_its_connections_back(wrong: str) -> None:
    node, kernel = in_ipvs("runit")
    was_open, weights = dict(kernel.open), kernel.weights()
    setattr(node, wrong, {"nftables"})
    with pytest.raises(BallastError) as caught:
        changed(node)
    assert "left: nothing" in str(caught.value)
    assert (node.mode, node.left(), kernel.open) == ("ipvs", [], was_open)
    assert {key: weights[key] for key in kernel.weights()} == kernel.weights()


def test_sources_of_the_node_stay_its_own_while_addresses_of_ipvs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    node, _kernel = in_ipvs("runit")
    calls: list[str] = []
    monkeypatch.setattr(switch.own_source, "use_service_addresses", lambda _host: calls.append(node.mode))
    changed(node)
    assert calls == []
    apply(node, node.asked(state="previous"))
    assert calls == ["ipvs"]


def in_ipvs(kind: str) -> tuple[Node, draining_node.DrainingKernel]:
    """A node whose kube-proxy does what it does to virtual servers when it starts."""
    node = Node(kind, mode="ipvs")
    kernel = draining_node.DrainingKernel(node.host)
    node.host.on("ip", "-j", "-4", answer=1, reads=True)  # routes: test_own_source.py
    node.host.on("ip", "-j", "-6", answer=1, reads=True)
    node.on_start = lambda: kernel.kube_proxy_starts(node.mode)
    node.on_chains = kernel.silence
    return node, kernel
