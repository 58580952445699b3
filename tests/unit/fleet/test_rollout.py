# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A whole rollout by its decisions alone, over nodes in memory whose failures are generated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.kube_proxy_run import judge_batch
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.request import Request
from tests.bench.rollout_node import ConnectionLost, Faults, NoAnswer, SimulatedNode
from tests.unit.action.course import FAULTS, Run, end_of

OLD, NEW = "iptables", "nftables"
GATE = {"pause": 0, "command": [], "query": "", "prometheus": "", "threshold": 0.0}
BREAKS_ITS_AUDIT = Faults(bad_audits=9)


@dataclass
class Rollout:
    """As the playbook does it: each batch is changed, looked at, judged, and taken back where the run ends."""

    nodes: dict[str, SimulatedNode]
    request: Request
    changed: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    taken_back: dict[str, dict[str, Any]] = field(default_factory=dict)
    last_batch: Sequence[str] = ()
    stopped: bool = False

    def run(self, batches: Sequence[Sequence[str]]) -> None:
        for batch in batches:
            self.last_batch = batch
            for name in batch:
                self.runs[name] = Run(self.nodes[name])
                self.changed[name] = self.runs[name](mode=NEW).as_result(began=1.0, seconds=2.0)
            after = {name: self.look(name) for name in batch}
            verdict = judge_batch(self.request, batch, self.changed, after, failed_before=self.failed).facts
            for name in verdict["take_back"]:
                self.taken_back[name] = self.runs[name](state="previous").as_result(began=1.0, seconds=2.0)
            self.failed += verdict["failed_hosts"]
            self.kept += verdict["kept"]
            self.stopped = verdict["stop"]
            if self.stopped:
                return

    def look(self, name: str) -> dict[str, Any]:
        result, run = self.changed[name], self.runs[name]
        if result.get("failed") or not result["changed"]:
            return {"skipped": True}
        try:
            found = run.node.run("kube_proxy_info", {}, begun=run.now, now=run.now + 1)
        except (ConnectionLost, NoAnswer) as error:
            return {"unreachable": True, "msg": str(error) or "no answer"}
        assert isinstance(found, dict)
        return found


def rollout(faults: Sequence[Faults], max_fail: int) -> Rollout:
    nodes = {f"n{number}": SimulatedNode(f"n{number}", OLD, faults=replace(row)) for number, row in enumerate(faults)}
    request = Request("kube_proxy_migrate", hosts=tuple(nodes), acts=True, mode=NEW, max_fail=max_fail, gate=GATE)
    return Rollout(nodes, request)


def batches_of(names: Sequence[str], sizes: Sequence[int]) -> list[list[str]]:
    """In their order; the last size is repeated."""
    batches: list[list[str]] = []
    while names:
        size = sizes[min(len(batches), len(sizes) - 1)]
        batches.append(list(names[:size]))
        names = names[size:]
    return batches


@given(st.lists(FAULTS, min_size=1, max_size=9), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 3))
def test_every_node_ends_confirmed_or_back_and_the_run_ends_in_time(
    faults: list[Faults], sizes: list[int], max_fail: int
) -> None:
    it = rollout(faults, max_fail)
    batches = batches_of(list(it.nodes), sizes)
    it.run(batches)
    assert len(it.failed) <= max_fail + len(it.last_batch)
    assert it.stopped == (len(it.failed) > max_fail)
    for name, node in it.nodes.items():
        if name not in it.runs:
            assert (node.mode, node.calls, it.stopped) == (OLD, 0, True)
            continue
        mode, armed = end_of(it.runs[name])
        assert mode in (OLD, NEW)
        assert not armed
        if name in it.kept:
            assert mode == NEW
        back = it.taken_back.get(name)
        if back is not None and not back.get("failed"):
            assert mode == OLD
        if mode == NEW and name not in it.kept:  # nobody is left to believe that it is done
            assert name in it.failed or (back is not None and back["failed"])


@pytest.mark.parametrize(("max_fail", "begun"), [(0, 2), (1, 4), (2, 6), (9, 6)])
def test_it_ends_with_the_batch_in_which_too_many_have_failed(max_fail: int, begun: int) -> None:
    bad = BREAKS_ITS_AUDIT
    it = rollout([bad, Faults(), bad, Faults(), bad, Faults()], max_fail)
    it.run(batches_of(list(it.nodes), [2]))
    assert (len(it.runs), it.stopped) == (begun, max_fail < 3)
    assert len(it.taken_back) == (1 if it.stopped else 0)
