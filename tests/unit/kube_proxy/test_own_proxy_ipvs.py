# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From ipvs to mode `ballast` and back, with open connections through virtual servers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import drain_record
from tests.unit.fakes import Call
from tests.unit.kube_proxy import draining_node
from tests.unit.kube_proxy.own_proxy_changes import KINDS, apply, shrink, taken_back
from tests.unit.kube_proxy.replaced_node import BALLAST, ReplacedNode


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


def in_ipvs(kind: str) -> tuple[ReplacedNode, draining_node.DrainingKernel]:
    node = ReplacedNode(kind, mode="ipvs")
    host, kernel = node.host, draining_node.DrainingKernel(node.host)

    def save(call: Call) -> str:
        lines = kernel.save_sets().splitlines()
        return "".join(f"{line}\n" for line in lines if len(call.argv) < 3 or line.split()[1] == call.argv[2])

    def destroy(call: Call) -> Completed:
        return kernel.restore_sets(replace(call, stdin=f"destroy {call.argv[2]}\n".encode()))

    host.on("ipset", "list", "-n", answer=lambda _call: "".join(f"{one}\n" for one in kernel.sets), reads=True)
    host.on("ipset", "save", answer=save, reads=True)
    host.on("ipset", "destroy", answer=destroy)
    host.on("ip", "-j", "address", answer=lambda _call: kernel.list_links(), reads=True)
    for family in ("-4", "-6"):  # routes: test_own_source.py
        host.on("ip", "-j", family, answer=1, reads=True)
    node.on_start = lambda: kernel.kube_proxy_starts(node.mode)
    node.on_chains = kernel.silence
    return node, kernel


@pytest.mark.parametrize("kind", KINDS)
def test_open_connections_go_on_there_and_back_and_the_rest_is_removed(kind: str) -> None:
    node, kernel = in_ipvs(kind)
    was_open, weights = dict(kernel.open), kernel.weights()
    apply(node, mode=BALLAST, drain_seconds=600)
    assert (node.serving, node.left_of_change(), kernel.open) == (BALLAST, [], was_open)
    assert {key: weight for key, weight in kernel.weights().items() if key in was_open} == {
        **dict.fromkeys(was_open, "0"),
        draining_node.FOREIGN: weights[draining_node.FOREIGN],
    }
    assert draining_node.IDLE not in kernel.servers
    assert draining_node.HIDDEN not in kernel.links
    draining = drain_record.describe(node.host)
    assert draining is not None
    assert draining["connections"] == 5
    taken_back(node)
    assert (node.serving, node.left_of_change(), kernel.open) == ("ipvs", [], was_open)
    assert kernel.weights() == {key: weight for key, weight in weights.items() if key in kernel.servers}
    assert drain_record.describe(node.host) is None


@pytest.mark.parametrize("wrong", ["unfit", "lost"])
def test_a_failed_change_gives_ipvs_its_connections_back(wrong: str) -> None:
    node, kernel = in_ipvs("runit")
    was_open, weights = dict(kernel.open), kernel.weights()
    setattr(node, wrong, {BALLAST})
    with pytest.raises(BallastError) as caught:
        apply(node, mode=BALLAST)
    assert "left: nothing" in str(caught.value)
    assert (node.serving, node.left_of_change(), kernel.open) == ("ipvs", [], was_open)
    assert kernel.weights() == {key: weight for key, weight in weights.items() if key in kernel.servers}
