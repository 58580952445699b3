# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an operator sees of the playbook balloons: real runs of ansible-playbook on nodes that a file describes."""

from __future__ import annotations

from typing import Any

from tests.unit.fleet.shadow import Fleet

PLAN = {
    "changed": True,
    "steps": [{"verb": "make", "title": "DaemonSet"}],
    "shared": [
        {"host": "b1", "nodes": ["n1", "two"], "behind": ["n1", "two"]},
        {"host": "b2", "nodes": ["n3"], "behind": ["n3"]},
        {"host": "b3", "nodes": ["n4"], "behind": []},
    ],
}


def sized(*names: str, **more: Any) -> dict[str, Any]:
    size = {"outcome": "done", "before": {"cpu": "1m", "memory": "16Mi"}, "after": {"cpu": "2", "memory": "4Gi"}}
    return {"nodes": [{"name": name, "host": "b1", **size} for name in names], "seconds": {"apply": 3.0}, **more}


def test_balloons_are_previewed_and_sized_from_here(fleet: Fleet) -> None:
    hosts: dict[str, dict[str, Any]] = {
        "n1": {"vars": {"balloons_target": {"cpu": "{{ 1 + 0 }}500m", "memory": "4Gi"}}},
        "n2": {"vars": {"balloons_weight": 2, "balloons_node_name": "two"}},
        "n3": {},
        "n4": {},
        "localhost": {"balloon": PLAN},
    }
    variables = {"balloons_hosts": "all:!localhost", "balloons_kubeconfig": "/a"}
    done = fleet.run("balloons", hosts=hosts, variables=variables)
    assert done.status == 0, done.output
    assert done.lines_of("Say what would happen")[:3] == [
        "make DaemonSet",
        "batches: 2, 1; the run ends when more than 0 nodes fail",
        "this was a preview: nothing was changed",
    ]
    ((_host, _name, options),) = fleet.calls("balloon")
    assert options["nodes"] == [
        {"name": "n1", "target": {"cpu": "1500m", "memory": "4Gi"}},
        {"name": "two", "weight": 2},
        {"name": "n3"},
        {"name": "n4"},
    ]
    assert (options["check"], options["become"]) == (True, False)
    (fleet.directory / "calls.jsonl").unlink()
    hosts["n1"]["balloon"] = sized("n1", "two")
    hosts["n3"]["balloon"] = {"failed": True, "msg": "balloon-no-room"}
    done = fleet.run("balloons", hosts=hosts, variables={**variables, "balloons_confirm": True})
    assert done.status != 0
    assert done.lines_of("Show the outcome of each node") == [
        "n1  sized  balloon 1m 16Mi -> 2 4Gi  3 s",
        "n2  sized  balloon 1m 16Mi -> 2 4Gi  3 s",
        "n4  unchanged",
        "n3  failed: balloon-no-room",
        "4 nodes: 2 sized, 1 failed, 1 unchanged",
    ]
    acting = [(host, options) for host, _name, options in fleet.calls("balloon") if not options["check"]]
    assert [(host, [row["name"] for row in options["nodes"]]) for host, options in acting] == [
        ("n1", ["n1", "two"]),
        ("n3", ["n3"]),
    ]
    assert {(options["kubeconfig"], options["become"]) for _host, options in acting} == {("/a", False)}
    assert [options["nodes"] for _host, _name, options in fleet.calls("balloon_info")][0] == acting[0][1]["nodes"]


def test_slices_are_moved_on_the_machine_that_has_them(fleet: Fleet) -> None:
    shared = [{"host": "b1", "nodes": ["n1", "n2"], "behind": ["n2"]}]
    of_machine = {"balloons_kubeconfig": "/on/machine", "balloons_reserve": {"cpu": "1"}}
    hosts: dict[str, dict[str, Any]] = {
        "m1": {"vars": of_machine, "balloon": {**PLAN, "shared": shared}},
        "n1": {"vars": {"ballast_host": "m1", "balloons_slice": "a"}},
        "n2": {"vars": {"ballast_host": "m1", "balloons_slice": "b"}, "balloon": sized("n1", "n2")},
    }
    variables = {"balloons_hosts": "n1,n2", "balloons_slices": True, "balloons_confirm": True}
    done = fleet.run("balloons", hosts=hosts, variables=variables)
    assert done.status == 0, done.output
    assert "n2 -> m1" in done.output, "the leader's task runs on the machine"
    (acting,) = [options for _host, _name, options in fleet.calls("balloon") if not options["check"]]
    assert [row["slice"] for row in acting["nodes"]] == ["a", "b"]
    assert (acting["become"], acting["kubeconfig"], acting["reserve"]["cpu"]) == (True, "/on/machine", "1")
    assert done.lines_of("Show the outcome of each node")[-1] == "2 nodes: 1 unchanged, 1 sized"


def test_balloons_that_cannot_be_planned_are_refused(fleet: Fleet) -> None:
    hosts: dict[str, dict[str, Any]] = {"n1": {}, "localhost": {"balloon": {"failed": True, "msg": "balloon-no-room"}}}
    variables = {"balloons_hosts": "n1", "balloons_kubeconfig": "/a", "balloons_confirm": True}
    done = fleet.run("balloons", hosts=hosts, variables=variables)
    assert done.status != 0
    assert done.lines_of("Say what would happen") == ["no response:  balloon-no-room: 1 node (n1)"]
    assert len(fleet.calls("balloon")) == 1
    done = fleet.run("balloons", "--limit", "n1", hosts=hosts, variables=variables)
    assert "--limit leaves out localhost" in done.output
