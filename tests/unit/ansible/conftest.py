# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A module as ansible starts it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.ballast.kube.plugins.module_utils._ansible.engine_cache import store as engines
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from tests.unit.ansible.toy import Ran


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def engines_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a host of ours where nothing else is, in the place of this machine's."""
    top = tmp_path_factory.mktemp("host")
    monkeypatch.setattr(engines, "STATE_DIRECTORY", str(top / "state"))
    monkeypatch.setattr(engines, "ENGINES_DIRECTORY", str(top / "engines"))
    return top / "engines"


@pytest.fixture(autouse=True)
def _root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs these tests."""
    monkeypatch.setattr(LocalHost, "is_root", lambda _self: True)


@pytest.fixture
def started(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    # Other tests of this process import the controller's side, which would take the warnings.
    monkeypatch.setattr("ansible.module_utils._internal.is_controller", False)
    monkeypatch.setattr("ansible.module_utils.common.warnings._global_deprecations", {})  # of this process

    def run(start: Callable[[], None], **params: Any) -> Ran:
        with patch_module_args(params), pytest.raises(SystemExit) as ended:
            start()
        printed = capsys.readouterr().out
        return Ran(int(ended.value.code or 0), json.loads(printed))

    return run
