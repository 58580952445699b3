# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.action.readiness_info import ActionModule
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness.features import (
    PARAMETER,
    parse_features,
)
from ansible_collections.ballast.kube.plugins.plugin_utils import readiness
from tests.unit.readings import FEATURES

Given = list[dict[str, Any]]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    """What the module was given, at each run."""
    found: Given = []

    def module(_self: object, module_args: dict[str, Any], **options: Any) -> dict[str, Any]:
        found.append({**module_args, **options})
        return {"changed": False, "invocation": {"module_args": dict(module_args)}}

    monkeypatch.setattr("ansible.plugins.action.ActionBase.run", lambda self, tmp=None, task_vars=None: {})
    monkeypatch.setattr(ActionModule, "_execute_module", module)
    return found


def run(seconds: int = 0) -> dict[str, Any]:
    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args={"hosts": []}, async_val=seconds)
    action._connection = SimpleNamespace(has_native_async=False)
    found: dict[str, Any] = action.run(task_vars={})
    return found


def test_the_module_is_given_what_is_written_down_of_each_feature(given: Given) -> None:
    assert run() == {"changed": False, "invocation": {"module_args": {"hosts": []}}}
    assert (given[0]["hosts"], given[0]["wrap_async"]) == ([], False)
    assert parse_features(given[0][PARAMETER]) == FEATURES


def test_it_may_be_asynchronous(given: Given) -> None:
    run(seconds=60)
    assert given[0]["wrap_async"] is True


def test_a_document_that_is_no_yaml_ends_it(given: Given, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in readiness.NAMES:
        (tmp_path / f"{name}.yml").write_text("name: [", encoding="utf-8")
    monkeypatch.setattr(readiness, "DIRECTORY", tmp_path)
    found = run()
    assert (found["failed"], found["id"], given) == (True, "core-document", [])
    assert "kube_proxy.yml" in found["msg"]
