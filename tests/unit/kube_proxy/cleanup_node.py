# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node in memory that is cleaned up, and what a plan of the clean-up says of each thing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.artefact import CleanupPlan
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.engine import ENGINE, CleanupRequest
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import RuleConfig
from tests.unit.fakes import Call, FakeHost
from tests.unit.rules.ipvs.kernel import Kernel
from tests.unit.rules.ipvs.test_apply import apply as apply_ipvs
from tests.unit.rules.ipvs.test_apply import kernel_with_foreign_things, view

TABLES = """\
table ip kube-proxy {
    chain services {
    }
}
"""


class Node:
    """A node in mode nftables, after ipvs."""

    def __init__(self, *, ipvs: bool = True, tables: str = TABLES) -> None:
        self.kernel: Kernel = kernel_with_foreign_things()
        self.host: FakeHost = self.kernel.host()
        self.tables = tables
        self.before = self.kernel.state()
        if ipvs:
            for family in (4, 6):
                apply_ipvs(compile_rules(view(family=family), RuleConfig(backend="ipvs")), self.host, family=family)
            self.host.given("/proc/net/ip_vs", self.kernel.list_connections())
        self.host.on("nft", "list", "chains", answer=lambda _call: self.tables, reads=True)
        self.host.on("nft", "-f", "-", answer="")
        self.host.on(
            "ipset", "list", "-n", answer=lambda _call: "".join(f"{one}\n" for one in self.kernel.sets), reads=True
        )
        self.host.on("ipset", "save", answer=self._save, reads=True)
        self.host.on("ipset", "destroy", answer=self._destroy)
        self.host.effects.clear()

    def _save(self, call: Call) -> str:
        lines = self.kernel.save_sets().splitlines()
        return "".join(f"{line}\n" for line in lines if len(call.argv) < 3 or line.split()[1] == call.argv[2])

    def _destroy(self, call: Call) -> Completed:
        return self.kernel.restore_sets(replace(call, stdin=f"destroy {call.argv[2]}\n".encode()))

    def plan(self, **options: Any) -> CleanupPlan:
        desired = CleanupRequest(**{"mode": "nftables", **options})
        return ENGINE.plan(desired, ENGINE.observe(Context(desired, self.host)))

    def clean(self, **options: Any) -> CleanupPlan:
        plan = self.plan(**options)
        progress = Progress(NullSink(), feature="kube_proxy_cleanup")
        ENGINE.apply(plan, Context(CleanupRequest("nftables"), self.host, progress))
        self.host.given("/proc/net/ip_vs", self.kernel.list_connections())
        return plan

    @property
    def did(self) -> list[str]:
        return [effect.target for effect in self.host.effects]


def told(plan: CleanupPlan, kind: str) -> dict[str, str]:
    return {one.target: one.fate for one in plan.artefacts if one.kind == kind}


def why(plan: CleanupPlan, target: str) -> str:
    return next(one.why for one in plan.artefacts if target in one.target)
