# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._agent import program
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki import pki


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that are made in no time, and an agent of which no file is read; nobody relies on them."""
    monkeypatch.setattr(pki, "_RSA_BITS", 1024)
    monkeypatch.setattr(program, "_sources", lambda _main, packages: dict.fromkeys(packages, b""))
