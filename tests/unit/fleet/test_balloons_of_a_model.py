# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook balloons with its real modules, against the API server of a model."""

from __future__ import annotations

from pathlib import Path

from tests.model_cluster.model import ModelCluster
from tests.unit.fleet.shadow import Fleet

SIZE = {"balloons_target": {"cpu": "1500m", "memory": "2Gi"}}


def test_nodes_are_sized_in_batches_of_whole_hosts_and_then_left_alone(tmp_path: Path) -> None:
    (tmp_path / "fleet").mkdir()
    fleet = Fleet(tmp_path / "fleet", replaced=())
    with ModelCluster(tls=tmp_path, daemonset=True) as model:
        for name, host in (("n1", "b1"), ("n2", "b1"), ("n3", "b2")):
            model.add_node(name, host=host)
        variables = {
            "balloons_hosts": "all",
            "balloons_kubeconfig": str(model.kubeconfig(tmp_path / "kubeconfig")),
            "balloons_reserve": {"cpu": "0", "memory": "0"},
            "balloons_confirm": True,
        }
        hosts = {name: {"vars": SIZE} for name in ("n1", "n2", "n3")}
        done = fleet.run("balloons", hosts=hosts, variables=variables)
        assert done.status == 0, done.output
        assert done.lines_of("Say what would happen")[-3:] == [
            "change balloon: 1m cpu, 16Mi memory -> 2500m cpu, 6144Mi memory: 3 nodes (n[1-3])",
            "change target: 3 nodes (n[1-3])",
            "batches: 2, 1; the run ends when more than 0 nodes fail",
        ]
        report = done.lines_of("Show the outcome of each node")
        assert [line.rpartition("  ")[0] for line in report[:3]] == [
            f"{name}  sized  balloon 1m 16Mi -> 2500m 6144Mi" for name in ("n1", "n2", "n3")
        ]
        assert report[3] == "3 nodes: 3 sized"
        assert "batch of 2 nodes (n[1-2]): 2 done, 0 failed" in done.output
        assert model.free("n1").cpu == 1500
        done = fleet.run("balloons", hosts=hosts, variables=variables)
        assert done.status == 0, done.output
        assert done.lines_of("Say what would happen") == ["nothing to change"]
        assert done.lines_of("Show the outcome of each node")[-1] == "3 nodes: 3 unchanged"
