# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import CommandFailed
from ansible_collections.ballast.kube.plugins.module_utils._instance import mounts

PATH = "/run/ballast/lab/n1.mnt.new"


class Kernel:
    """Refuses to bind a namespace that is made on another processor than `works_on`."""

    def __init__(self, works_on: str, says: str = "Invalid argument") -> None:
        self.works_on = works_on
        self.says = says
        self.tried: list[str] = []

    def run(self, argv: Sequence[str], **_options: Any) -> None:
        cpu = argv[2] if argv[0] == "taskset" else "any"
        self.tried.append(cpu)
        if cpu != self.works_on:
            raise CommandFailed(argv, status=1, output=f"unshare: mount failed: {self.says}")


@pytest.fixture(autouse=True)
def _three_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 5})


def test_a_namespace_that_counts_as_older_is_made_on_another_processor() -> None:
    for works_on, tried in (("any", ["any"]), ("1", ["any", "0", "1"]), ("5", ["any", "0", "1", "5"])):
        kernel = Kernel(works_on)
        mounts._unshare(kernel, PATH)  # type: ignore[arg-type]
        assert kernel.tried == tried


def test_another_refusal_is_told_at_once_and_the_last_one_in_any_case() -> None:
    for kernel, tries in ((Kernel("none", "Operation not permitted"), 1), (Kernel("none"), 4)):
        with pytest.raises(CommandFailed):
            mounts._unshare(kernel, PATH)  # type: ignore[arg-type]
        assert len(kernel.tried) == tries
