# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes of a node's kube-proxy to another mode and back, as several tests make them, and what they plan and leave."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Plan
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import switch, watchdog_files
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.request import KubeProxyRequest
from tests.unit import cases
from tests.unit.kube_proxy.fake_node import CONFIG_PATH, GUARD, MODE_LABEL, NAME, STATE, Node, config

UP = [
    f"make directory {GUARD}",
    f"make directory {GUARD}/sv",
    f"make program {GUARD}/guard.pyz",
    f"make file {GUARD}/guard.json",
    f"make cgroup {NAME}",
    f"make service {NAME}-guard",
    f"make supervisor of {GUARD}/sv",  # which under systemd always is
]
DOWN = [one.replace("make ", "remove ") for one in reversed(UP)]
OVER, AWAY = "make takeover table ballast-bridge", "remove takeover table ballast-bridge"
KINDS = ("runit", "systemd", "pod")


def shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard's program without its sources, and rules that are as they are meant: both have tests of their own."""
    monkeypatch.setattr(watchdog_files, "PACKAGES", ())
    monkeypatch.setattr(switch, "compare_rules", lambda *_args, **_options: [])


def up(kind: str) -> list[str]:
    return UP[:-1] if kind == "systemd" else UP


def down(kind: str) -> list[str]:
    return DOWN[1:] if kind == "systemd" else DOWN


def told(plan: Plan) -> list[str]:
    return [f"{step.verb} {step.title}" for step in plan.steps]


def plan(node: Node, wanted: KubeProxyRequest) -> list[str]:
    """The plan, which is made without an effect."""
    before = len(node.host.effects)
    found = told(cases.plan_of(ENGINE, wanted, node.host))
    assert node.host.effects[before:] == []
    return found


def apply(node: Node, wanted: KubeProxyRequest) -> list[str]:
    return told(cases.apply(ENGINE, wanted, node.host))


def change(mode: str) -> str:
    return f"change kube-proxy in mode {mode}"


def changed(node: Node) -> None:
    apply(node, node.asked())


def taken_back(node: Node) -> None:
    apply(node, node.asked(state="previous"))


def is_new(node: Node, at: str) -> None:
    assert (node.mode, node.left()) == ("nftables", []), at
    assert node.labels == ({MODE_LABEL: "nftables"} if node.kind == "pod" else {}), at
    assert plan(node, node.asked()) == [], at


def is_old(node: Node, at: str) -> None:
    assert (node.mode, node.labels, node.left()) == ("iptables", {}, []), at
    assert node.host.paths(STATE) == [], at
    if node.kind != "pod":
        assert (node.config(), node.host.mode(CONFIG_PATH)) == (config(), 0o640), at
    assert plan(node, node.asked(state="previous")) == [], at
