# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Scores for the OOM killer are those of the kubelet where the host lets them fall, and else no pod fails for one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._instance import config
from ansible_collections.ballast.kube.plugins.module_utils._instance.oom_scores import may_lower_scores
from tests.unit.fakes import FakeHost
from tests.unit.instance import given as g


@pytest.mark.parametrize(
    ("status", "may"),
    [
        ("Name:\tcat\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n", True),
        ("Name:\tcat\nCapEff:\t000001fffeffffff\nCapBnd:\t000001ffffffffff\n", False),
        ("Name:\tCapEff:\t000001ffffffffff\n", False),  # a process names itself
        ("", False),
    ],
)
def test_scores_may_fall_with_the_capability_alone(status: str, may: bool) -> None:
    host = FakeHost(files={"/proc/self/status": status})
    assert may_lower_scores(host) is may
    assert may_lower_scores(FakeHost()) is False


@pytest.mark.parametrize("may", [True, False])
def test_containerd_restricts_them_where_they_may_not_fall(may: bool) -> None:
    desired = replace(g.desired(), lowers_oom_scores=may)
    text = config.containerd(desired, desired.instances[0], f"{g.STATE}/n1")
    assert f"restrict_oom_score_adj = {'false' if may else 'true'}\n" in text
