# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a node's kube-proxy without changing it: what `kube_proxy_info` returns, and what blocks a change."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Optional

from .._core.engine.kinds import fields
from .._core.host.host import Host
from .._core.text.errors import BallastError
from .._rules.model import IPVS
from . import installation, own_proxy
from .cleanup.engine import read_stale_rules
from .config_file import merge
from .health import read_lasting_problem, version_in
from .messages import MESSAGES
from .modes import BALLAST, rules_of
from .preflight.facts import ModeChange, read_facts
from .preflight.rule import PreflightFinding
from .preflight.rules import preflight
from .request import KubeProxyRequest, KubeProxyState
from .rule_verification import compare_rules, lasting_differences
from .sources import Sources


@dataclass(frozen=True)
class Audit:
    """One line for each difference between rules and Services. `problem` says why they could not be compared."""

    differences: tuple[str, ...]
    problem: str = ""

    @property
    def lines(self) -> list[str]:
        """A problem counts as a difference, since rules that were not compared may differ."""
        return [self.problem] if self.problem else list(self.differences)


def blocking_findings(
    host: Host, desired: KubeProxyRequest, state: KubeProxyState, sources: Sources
) -> list[PreflightFinding]:
    """The findings of the preflight checks for `desired.mode`, including acknowledged ones, which do not block.
    `state.obstacle` is raised."""
    from_mode, to_mode = rules_of(mode_in_effect(state)), rules_of(desired.mode)
    enters_ipvs = to_mode == IPVS != from_mode
    new_config = merge(state.kube_proxy_config, {**desired.config, "mode": to_mode})
    is_ours = desired.mode == BALLAST
    if is_ours:
        if state.obstacle is not None:
            raise state.obstacle
        own_proxy.deployment(desired.state_dir, new_config, state.node)  # raises for unsupported settings
    change = ModeChange(
        from_mode=from_mode,
        to_mode=to_mode,
        config=state.config,
        new_config=new_config,
        is_ours=is_ours,
        kube_proxy_version=version_in(sources.metrics),
        deployment=desired.where.deployment,
        node_name=state.node,
        snapshot=sources.snapshot_with_every_node() if enters_ipvs else sources.snapshot(),
        metrics=sources.metrics,
        api_server=sources.api_server() if enters_ipvs else "",
    )
    return preflight(read_facts(host, change), acknowledge=desired.acknowledge)


def refuse(findings: list[PreflightFinding]) -> None:
    """Raise an error if a finding is not acknowledged."""
    blocking = [finding for finding in findings if finding.is_blocking]
    if blocking:
        lines = "\n".join(f"{finding.line}\n  fix: {finding.remedy}" for finding in blocking)
        ids = ", ".join(finding.id for finding in blocking)
        raise MESSAGES.error("migrate-preflight", found=lines, count=len(blocking), ids=ids)


def inspect(
    host: Host, desired: KubeProxyRequest, state: KubeProxyState, sources: Sources, audit: Optional[Audit] = None
) -> dict[str, Any]:
    """What `kube_proxy_info` returns about health, stale rules, preflight findings and differences. Without `audit`, no
    differences are reported."""
    mode = mode_in_effect(state)
    reason = read_lasting_problem(host, state.config, mode) if mode else "it does not respond"
    bridged = any(record.kind == "bridge" for record in state.recorded)
    report: dict[str, Any] = {
        "in_order": not reason,
        "reason": reason,
        "residue": [asdict(artefact) for artefact in read_stale_rules(host, mode, bridged)] if mode else [],
        "preflight": [],
        "differences": audit.lines if audit is not None and mode else [],
    }
    if desired.mode and desired.mode != mode:
        report["preflight"] = [asdict(finding) for finding in blocking_findings(host, desired, state, sources)]
    return report


def mode_in_effect(state: KubeProxyState) -> str:
    """The mode in effect; "" if kube-proxy does not respond."""
    return str(fields(state.proxy.value)["mode"])


def audit_rules(host: Host, desired: KubeProxyRequest, state: KubeProxyState, sources: Sources) -> Audit:
    """Compare its rules with the Services. Never raises: `problem` of the result says why they could not be
    compared."""
    mode = mode_in_effect(state)
    if not mode:
        return Audit((), "kube-proxy does not respond, so it is unknown which rules are its own")
    try:
        variant = installation.iptables_variant(host, desired.where)
        options = {"mode": mode, "node": state.node, "variant": variant}
        lasting = lasting_differences(
            host, lambda: compare_rules(host, sources.fresh_snapshot(), state.config, **options)
        )
        return Audit(tuple(difference.line for difference in lasting))
    except BallastError as error:
        return Audit((), error.in_one_line)
