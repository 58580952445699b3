# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role balloons says twice: its own defaults, and the options and names that the modules have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import TAINT
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.request import SPEC as RECONCILER
from ansible_collections.ballast.kube.plugins.module_utils._balloon.request import SPEC

ROLE = Path(__file__).resolve().parents[3] / "roles/balloons"


def read(path: str) -> Any:
    return yaml.safe_load((ROLE / path).read_text(encoding="utf-8"))


DEFAULTS = read("defaults/main.yml")
OPTIONS = read("meta/argument_specs.yml")["argument_specs"]


@pytest.mark.parametrize("name", ["state", "namespace", "priority", "grow_timeout", "slices", "vm", "image"])
def test_a_default_is_that_of_the_module(name: str) -> None:
    assert (DEFAULTS[f"balloons_{name}"] or None) == (SPEC[name].get("default") or None)


def test_every_option_of_the_module_can_be_given() -> None:
    (task,) = read("tasks/main.yml")
    # Balloons of another name size no node, which is what the role is for.
    assert set(task["ballast.kube.balloon"]) == set(SPEC) - {"name", "progress_log"}


def test_the_record_of_the_reconciler_is_where_the_module_looks() -> None:
    assert DEFAULTS["balloons_reconciler_state_dir"] == RECONCILER["state_dir"]["default"]


@pytest.mark.parametrize("entry", sorted(OPTIONS))
def test_the_spec_says_the_defaults(entry: str) -> None:
    for name, option in OPTIONS[entry]["options"].items():
        assert option.get("default") == DEFAULTS.get(name), name


def test_the_taint_is_the_one_that_is_taken_away() -> None:
    assert read("vars/main.yml")["__balloons_taint"] == {"key": TAINT, "effect": "NoSchedule"}
