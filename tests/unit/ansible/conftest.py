# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A module as ansible starts it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from tests.unit.ansible.toy import Ran


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def started(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    # Other tests of this process import the controller's side, which would take the warnings.
    monkeypatch.setattr("ansible.module_utils._internal.is_controller", False)

    def run(start: Callable[[], None], **params: Any) -> Ran:
        with patch_module_args(params), pytest.raises(SystemExit) as ended:
            start()
        printed = capsys.readouterr().out
        return Ran(int(ended.value.code or 0), json.loads(printed))

    return run
