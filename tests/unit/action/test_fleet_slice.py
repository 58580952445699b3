# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Before a batch of a slice: what failed before the first one counts for all slices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.ballast.kube.plugins.action import fleet_slice
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.record import read_record
from tests.unit.fake_api import FakeApi
from tests.unit.fleet_run.test_boundary import PATH, boundary, server

BATCH = Path(__file__).resolve().parents[3] / "playbooks/tasks/batch.yml"
SILENT = {"n8": "no route", "n9": "no route"}


def arguments(silent: dict[str, str]) -> dict[str, Any]:
    """What the task gives to the action."""
    tasks = yaml.safe_load(BATCH.read_text(encoding="utf-8"))
    (task,) = (row["ballast.kube.fleet_slice"] for row in tasks if "ballast.kube.fleet_slice" in row)
    variables = {"ansible_play_batch": ["n1"], "hostvars": {"localhost": {"kube_proxy_preview": {"silent": silent}}}}
    templar = Templar(DataLoader(), variables=variables)
    return {name: templar.template(trust_as_template(text)) for name, text in task.items()}


def ask(monkeypatch: pytest.MonkeyPatch, api: FakeApi, slice_name: str, silent: dict[str, str]) -> dict[str, Any]:
    monkeypatch.setattr("ansible.plugins.action.ActionBase.run", lambda self, tmp=None, task_vars=None: {})
    monkeypatch.setattr(
        "ansible.plugins.action.ActionBase.validate_argument_spec", lambda self, spec: (None, arguments(silent))
    )
    monkeypatch.setattr(fleet_slice, "slice_boundary", lambda _variables: boundary(api, slice_name, slice_name))
    answer: dict[str, Any] = fleet_slice.ActionModule.__new__(fleet_slice.ActionModule).run(
        task_vars={"fleet_slice": {"name": slice_name}}
    )
    return answer


def test_hosts_without_an_answer_count_before_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice may do without two, and both together may not: one controller would not have begun."""
    api = server(max_fail=3)
    for name in ("slice-0", "slice-1"):
        boundary(api, name, name).claim()
    first = ask(monkeypatch, api, "slice-0", SILENT)
    second = ask(monkeypatch, api, "slice-1", {"n6": "no route", "n7": "no route"})
    assert (first["stop"], second["stop"]) == (False, True)
    assert second["why"] == "4 nodes of the whole run failed, and max_fail allows 3"
    assert read_record(api.objects[PATH]).of("slice-1").begun == ()


def test_a_slice_whose_hosts_all_answer_counts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    api = server(max_fail=0)
    boundary(api, "slice-0", "slice-0").claim()
    assert not ask(monkeypatch, api, "slice-0", {})["stop"]
    assert read_record(api.objects[PATH]).of("slice-0").begun == ("n1",)
