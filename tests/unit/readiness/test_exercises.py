# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an exercise says is wrong, by what was read back after one of its steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

VARS = Path(__file__).resolve().parents[3] / "roles/readiness/vars/exercises"
ONE, TWO = {"name": "n1"}, {"name": "n2"}
PIDS = {"n1": {"kubelet": 11, "containerd": 12}, "n2": {"kubelet": 21, "containerd": 22}}


def found(**changes: Any) -> dict[str, Any]:
    rows = [{"name": name, "pids": pids, "ready": True} for name, pids in PIDS.items()]
    scale = {"figures": [{"name": "n2, processes and threads", "limit": None}]}
    told = {"instances": rows, "readiness": {"answers": {"scale": scale}}, "options": {"instances": [ONE, TWO]}}
    return {**told, **changes}


def wrong(told: dict[str, Any], step: dict[str, Any]) -> list[str]:
    loader = DataLoader()
    variables = loader.load_from_file(str(VARS / "of_node_instances.yml"), trusted_as_template=True)
    given = {
        "__readiness_node_instances": {"options": {"instances": [ONE, TWO]}},
        "__readiness_found": told,
        "__readiness_instance_pids": PIDS,
        "readiness_step": step,
    }
    said: list[str] = Templar(loader, variables={**variables, **given}).template(
        variables["__readiness_instance_wrong"]
    )
    return said


RUNS = {"instances": [ONE, TWO], "running": True}
STOPPED = {"instances": [ONE, {**TWO, "stopped": True}]}


def test_what_is_as_it_should_be_is_not_told():
    assert wrong(found(), RUNS) == []


@pytest.mark.parametrize("step", [RUNS, STOPPED])
def test_instances_that_cannot_be_asked_are_told_as_that_and_nothing_else(step):
    told = {"failed": True, "msg": "nobody answers\n  do:    start it"}
    assert wrong(told, step) == ["the instances could not be asked: nobody answers"]


def test_a_service_that_still_runs_is_told():
    said = wrong(found(options={"instances": STOPPED["instances"]}), STOPPED)
    assert said == ["a service of n2 still runs"]


def test_services_that_were_started_anew_are_told():
    rows = found()["instances"]
    rows[1] = {**rows[1], "pids": {"kubelet": 99, "containerd": 22}}
    assert wrong(found(instances=rows), RUNS) == ["n2 was restarted"]
