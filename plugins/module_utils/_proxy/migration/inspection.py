# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known of a node's kube-proxy without changing it: what `kube_proxy_info` returns, and what stands against a change."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Optional

from ..._core.errors import BallastError
from ..._core.host import Host
from ..._core.kinds import fields
from . import installation
from .config_file import merged
from .health import not_in_order, version_in
from .messages import MESSAGES
from .preflight.facts import Asked, read_facts
from .preflight.rule import PreflightFinding
from .preflight.rules import preflight
from .proof import differences
from .request import Found, KubeProxy
from .residue.engine import read_residue
from .sources import Sources


@dataclass(frozen=True)
class Audit:
    """Where rules are not what the Services mean, a line each. `problem`: why that is not known."""

    differences: tuple[str, ...]
    problem: str = ""

    @property
    def told(self) -> list[str]:
        """What nobody could look at is told of as a difference: nobody knows that there is none."""
        return [self.problem] if self.problem else list(self.differences)


def stands_against(host: Host, desired: KubeProxy, found: Found, sources: Sources) -> list[PreflightFinding]:
    """What the checks before a change to `desired.mode` find; empty where nothing stands against it."""
    asked = Asked(
        from_mode=mode_in_effect(found),
        to_mode=desired.mode,
        config=found.config,
        wanted_config=merged(found.config, {**desired.config, "mode": desired.mode}),
        kube_proxy_version=version_in(sources.metrics),
        deployment=desired.where.deployment,
        node_name=found.node,
        snapshot=sources.snapshot(),
        metrics=sources.metrics,
    )
    return preflight(read_facts(host, asked), acknowledge=desired.acknowledge)


def refuse(findings: list[PreflightFinding]) -> None:
    """Raise where one of them is not acknowledged."""
    open_ones = [one for one in findings if not one.acknowledged]
    if open_ones:
        told = "\n".join(
            f"{one.id} ({one.severity}): {one.text}: {'; '.join(one.found)}\n  do: {one.remedy}" for one in open_ones
        )
        ids = ", ".join(one.id for one in open_ones)
        raise MESSAGES.error("migrate-preflight", found=told, count=len(open_ones), ids=ids)


def inspected(
    host: Host, desired: KubeProxy, found: Found, sources: Sources, audit: Optional[Audit] = None
) -> dict[str, Any]:
    mode = mode_in_effect(found)
    reason = not_in_order(host, found.config, mode) if mode else "it does not answer"
    bridged = any(one.kind == "bridge" for one in found.recorded)
    report: dict[str, Any] = {
        "in_order": not reason,
        "reason": reason,
        "residue": [asdict(one) for one in read_residue(host, mode, bridged)] if mode else [],
        "preflight": [],
        "differences": audit.told if audit is not None and mode else [],
    }
    if desired.mode and desired.mode != mode:
        report["preflight"] = [asdict(one) for one in stands_against(host, desired, found, sources)]
    return report


def mode_in_effect(found: Found) -> str:
    """ "" where kube-proxy does not answer."""
    return str(fields(found.proxy.value)["mode"])


def audited(host: Host, desired: KubeProxy, found: Found, sources: Sources) -> Audit:
    mode = mode_in_effect(found)
    if not mode:
        return Audit((), "kube-proxy does not answer, so that it is not known which rules are its own")
    try:
        variant = installation.iptables_variant(host, desired.where)
        given = sources.snapshot()
        return Audit(tuple(differences(host, given, found.config, mode=mode, node=found.node, variant=variant)))
    except BallastError as error:
        return Audit((), error.in_one_line)
