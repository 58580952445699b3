# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A change of a node's kube-proxy is proved before it stays: one whose proof fails leaves the node as it was."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import switch
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.rule_verification import Difference
from tests.unit.kube_proxy.fake_node import Node
from tests.unit.kube_proxy.mode_changes import KINDS, changed, is_new, is_old, shrink


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", ["unfit", "lost", "blind"])
def test_a_change_whose_proof_fails_leaves_the_node_as_it_was(kind: str, wrong: str) -> None:
    node = Node(kind)
    if wrong == "blind":
        node.blind = True
    else:
        setattr(node, wrong, {"nftables"})
    with pytest.raises(BallastError) as caught:
        changed(node)
    assert caught.value.id == {"unfit": "migrate-gate", "lost": "migrate-probe", "blind": "migrate-bridge"}[wrong]
    assert "left: nothing" in str(caught.value)
    assert ("from the node: timed out" in str(caught.value)) == (wrong == "lost")
    is_old(node, wrong)


def test_rules_that_are_not_as_meant_are_asked_three_times_then_the_change_is_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node, asked = Node(), []

    def differences(*_args: object, mode: str, **_options: object) -> list[Difference]:
        asked.append(mode)
        line = f"default/web: expected an answer, found none at try {len(asked)}"
        return [Difference("default/web", line)] if mode == "nftables" else []

    monkeypatch.setattr(switch, "compare_rules", differences)
    with pytest.raises(BallastError) as caught:
        changed(node)
    assert (caught.value.id, caught.value.found) == (
        "migrate-audit",
        "default/web: expected an answer, found none at try 3",
    )
    assert asked == ["nftables"] * 3 + ["iptables"]
    is_old(node, "audit")


def test_a_difference_that_goes_by_itself_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Difference("default/one", "default/one: expected an answer, found none")
    node, answers = Node(), [[one], [one], []]
    monkeypatch.setattr(switch, "compare_rules", lambda *_args, **_options: answers.pop(0))
    changed(node)
    is_new(node, "in the end")


def test_services_that_differ_one_after_the_other_are_services_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    node, asked = Node(), []

    def differences(*_args: object, **_options: object) -> list[Difference]:
        asked.append(f"default/web-{len(asked)}")
        return [Difference(asked[-1], f"{asked[-1]}: expected an answer, found none")]

    monkeypatch.setattr(switch, "compare_rules", differences)
    changed(node)
    assert len(asked) == 2
    is_new(node, "after the second comparison")
