# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes to mode `ballast` and back, as several tests make them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._agent import program
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import switch, watchdog_files
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.engine import ENGINE
from tests.unit import cases
from tests.unit.kube_proxy.fake_node import Node
from tests.unit.kube_proxy.replaced_node import BALLAST, ReplacedNode

KINDS = ("runit", "systemd")


def shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs without their sources, and rules that are as they are meant: these have tests of their own."""
    monkeypatch.setattr(watchdog_files, "PACKAGES", ())
    monkeypatch.setattr(program, "_sources", lambda _main, packages: dict.fromkeys(packages, b""))
    monkeypatch.setattr(switch, "compare_rules", lambda *_args, **_options: [])


def apply(node: Node, **options: Any) -> None:
    cases.apply(ENGINE, node.asked(**options), node.host)


def replaced(node: ReplacedNode) -> None:
    apply(node, mode=BALLAST)


def taken_back(node: ReplacedNode) -> None:
    apply(node, state="previous")
