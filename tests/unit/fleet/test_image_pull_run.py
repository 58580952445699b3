# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A whole run of image_pull_proxy by its decisions alone, over machines and kubelets whose failures are generated."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.plugin_utils.fleet import image_pull_run as pulls
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.request import Request
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.run import judge

GATE = {"pause": 0, "command": [], "query": "", "prometheus": "", "threshold": None}
CHANGE = {"changed": True, "steps": []}
FAILS = {"failed": True, "msg": "no"}


def batches_of(stage: dict[str, Any]) -> list[list[str]]:
    hosts, batches = list(stage["changing"]), []
    for size in stage["serial"]:
        batches.append(hosts[:size])
        hosts = hosts[size:]
    return batches


class Rollout:
    """As the playbook does it: each stage in batches, each of which is judged."""

    def __init__(self, request: Request, bad_machines: Collection[str], bad_nodes: Collection[str]) -> None:
        self.request, self.bad = request, {"proxy": bad_machines, "kubelet": bad_nodes}
        self.verdicts: dict[str, Any] = {}
        self.done: list[tuple[str, str]] = []  # what was changed where, in order
        details = request.details
        rows = {name: dict.fromkeys(details[name], CHANGE) for name in ("machines", "nodes")}
        found = dict.fromkeys(details["machines"], {"status": None})
        self.before = dict(pulls.preview(request, pulls.Looks(found, rows["machines"], rows["nodes"])).facts)
        self.stage(pulls.PROXIES, "proxy", self.before)
        self.kubelets = dict(pulls.kubelets_stage(request, self.before, self.verdicts).facts)
        self.stage(pulls.KUBELETS, "kubelet", self.kubelets)
        self.removal = dict(pulls.removal_stage(request, self.before, self.kubelets, self.verdicts).facts)
        self.stage(pulls.REMOVAL, "proxy", self.removal)

    def stage(self, name: str, what: str, facts: dict[str, Any]) -> None:
        for batch in batches_of(facts):
            self.done += [(what, host) for host in batch]
            reasons = {host: "no" if host in self.bad[what] else "" for host in batch}
            earlier = [*facts["failed_before"], *pulls.judged(name, self.verdicts).failed]
            verdict = {**judge(self.request, batch, reasons, failed_before=earlier).facts, "stage": name}
            self.verdicts.update(dict.fromkeys(batch, verdict))
            if verdict["stop"]:
                return

    def report(self) -> dict[str, str]:
        """Outcome by node."""
        results = {
            what: {host: FAILS if host in self.bad[what] else CHANGE for _what, host in self.done if _what == what}
            for what in self.bad
        }
        run = pulls.Run(
            self.before,
            self.kubelets,
            self.removal,
            pulls.judged(pulls.REMOVAL, self.verdicts),
            dict.fromkeys(self.request.details["nodes"], CHANGE),
            results["proxy"],
            results["kubelet"],
        )
        return {line.split()[0]: line.split()[1] for line in pulls.outcome(self.request, run).lines[:-1]}


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=5),
    st.sets(st.integers(0, 14)),
    st.sets(st.integers(0, 4)),
    st.integers(0, 3),
    st.lists(st.integers(1, 4), min_size=1, max_size=2),
    st.booleans(),
)
def test_no_kubelet_asks_a_proxy_that_is_not_there(
    counts: Sequence[int], bad: set[int], bad_machines: set[int], most: int, serial: list[int], removes: bool
) -> None:
    """A machine with one node is that node, others carry theirs."""
    machine_of: dict[str, str] = {}
    for number, count in enumerate(counts):
        for _each in range(count):
            node = f"n{len(machine_of)}"
            machine_of[node] = node if count == 1 else f"m{number}"
    nodes, machines = list(machine_of), list(dict.fromkeys(machine_of.values()))
    details = {"state": "absent" if removes else "present", "limit": 4, "nodes": nodes, "machines": machines}
    request = Request(
        "image_pull_proxy",
        hosts=tuple(nodes),
        acts=True,
        serial=tuple(serial),
        max_fail=most,
        gate=GATE,
        details={**details, "machine_of": machine_of},
    )
    ill = {machines[number] for number in bad_machines if number < len(machines)}
    it = Rollout(request, ill, {f"n{number}" for number in bad})
    for place, (what, host) in enumerate(it.done):
        earlier = it.done[:place]
        if what == "kubelet" and not removes:
            assert ("proxy", machine_of[host]) in earlier
            assert machine_of[host] not in ill
        if what == "proxy" and removes:
            assert all(
                ("kubelet", node) in earlier and node not in it.bad["kubelet"]
                for node in nodes
                if machine_of[node] == host
            )
    assert len(it.done) == len(set(it.done)), "each is changed once"
    report = it.report()
    assert set(report) == set(nodes)
    for node, outcome in report.items():
        parts = {("kubelet", node), ("proxy", machine_of[node])}
        is_ill = node in it.bad["kubelet"] or machine_of[node] in ill
        assert (outcome == "changed") == (parts <= set(it.done) and not is_ill), (node, outcome, it.done)
