# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A worker and the program that it runs the playbook with."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._fleet_run import worker

SETTINGS = worker.Settings("kube_proxy_migrate", True, 10, {}, {"all": {"hosts": {}}})


class Runner(ModuleType):
    """ansible-runner, as far as signals go: where nobody says when it is to cancel, it takes SIGTERM for that."""

    is_cancelled = False

    def run(self, *, cancel_callback: Optional[Callable[[], bool]] = None, **_options: Any) -> None:
        taken: list[int] = []
        if cancel_callback is None:
            signal.signal(signal.SIGTERM, lambda number, _frame: taken.append(number))
        os.kill(os.getpid(), signal.SIGTERM)
        self.is_cancelled = bool(taken) or bool(cancel_callback and cancel_callback())


def test_a_worker_that_is_to_end_does_not_end_its_playbook(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends by itself between two batches. The nodes of a batch would go back, and some would be changed twice."""
    runner, told = Runner("ansible_runner"), list[int]()
    monkeypatch.setitem(sys.modules, "ansible_runner", runner)
    before = signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    try:
        worker._run(SETTINGS)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (runner.is_cancelled, told) == (False, [signal.SIGTERM])
