# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The change of a node's kube-proxy ends well wherever it is killed: by the next run, by the guard, or at once where an effect fails."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import watchdog
from tests.unit.fakes import Killed, ListSink
from tests.unit.kube_proxy.fake_node import GUARD, GUARD_SERVICE, STATE, Node
from tests.unit.kube_proxy.killed_runs import kill_at_every_effect
from tests.unit.kube_proxy.mode_changes import KINDS, apply, changed, is_new, is_old, shrink, taken_back


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


def kill_everywhere(kind: str, first: Callable[[Node], object], then: Callable[[Node, str], None]) -> int:
    return kill_at_every_effect(lambda: prepared(kind, first), first, then)


def prepared(kind: str, first: Callable[[Node], object]) -> Node:
    node = Node(kind)
    if first is not changed:
        apply(node, node.asked(confirm_within=60))
    return node


def confirmed(node: Node) -> None:
    apply(node, node.asked(state="confirmed"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_killed_at_any_effect_is_made_by_the_next_run(kind: str) -> None:
    def then(node: Node, at: str) -> None:
        changed(node)
        is_new(node, at)

    assert kill_everywhere(kind, changed, then) > 60


@pytest.mark.parametrize("kind", ["systemd", "pod"])
def test_a_change_killed_at_any_effect_is_taken_back_by_the_next_run(kind: str) -> None:
    def then(node: Node, at: str) -> None:
        taken_back(node)
        is_old(node, at)

    assert kill_everywhere(kind, changed, then) > 60


@pytest.mark.parametrize("last", [confirmed, taken_back])
def test_an_armed_change_ends_as_it_was_told_last_wherever_that_was_killed(last: Callable[[Node], None]) -> None:
    def then(node: Node, at: str) -> None:
        last(node)
        (is_new if last is confirmed else is_old)(node, at)

    assert kill_everywhere("runit", last, then) > 20


def test_a_change_killed_at_any_effect_is_taken_back_by_the_guard_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where there is none yet, or none any more, nothing of the bridge is there either."""
    monkeypatch.setattr(watchdog, "FileSink", lambda _path: ListSink())
    went = []

    def then(node: Node, at: str) -> None:
        mode = node.mode
        if node.services.runs(GUARD_SERVICE) and node.host.read(f"{GUARD}/guard.json"):
            watchdog.go_back(node.host, STATE)
            assert (node.mode, node.labels, node.left()) == ("iptables", {}, []), at
            outcome = json.loads(node.host.text(f"{STATE}/outcome.json"))
            assert outcome["why"] == "the change was not confirmed", at
            went.append(mode)
        else:
            assert node.tables == set(), at

    assert kill_everywhere("pod", changed, then) > 60
    assert set(went) == {"iptables", "nftables"}


def test_the_guard_of_a_second_change_goes_back_to_the_first_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of the first change is there as long as the second one is not made."""
    monkeypatch.setattr(watchdog, "FileSink", lambda _path: ListSink())
    number, went = 1, 0
    while True:
        node = Node("runit")
        apply(node, node.asked(mode="ipvs"))
        node.host.fail_at(number, torn=True)
        try:
            changed(node)
        except Killed:
            node.host.calm()
        else:
            break
        if node.services.runs(GUARD_SERVICE) and node.host.read(f"{GUARD}/guard.json"):
            watchdog.go_back(node.host, STATE)
            assert (node.mode, node.left()) == ("ipvs", []), f"killed at effect {number}"
            went += 1
        number += 1
    assert went > 10


def test_a_change_that_fails_at_any_effect_is_undone_at_once_and_one_that_was_made_stays() -> None:
    number, stayed = 1, 0
    while True:
        node = Node("systemd")
        node.host.fail_at(number, HostError("the disk says no", id="core-eio"))
        try:
            changed(node)
        except HostError as error:
            at = f"failed at effect {number}: {error}"
            assert node.tables == set(), at
            if node.mode == "nftables":  # with the last line of the journal
                stayed += 1
                changed(node)
                is_new(node, at)
            else:
                taken_back(node)
                is_old(node, at)
        else:
            break
        number += 1
    assert (number > 60, stayed) == (True, 1)
