# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known of a node's kube-proxy without changing it: what `kube_proxy_info` returns, and what stands against a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ..._core.errors import PeerError
from ..._core.host import Host
from ..._core.kinds import fields
from . import installation
from .config_file import merged
from .feed import snapshot
from .health import not_in_order, read_metrics, read_version
from .messages import MESSAGES
from .preflight.facts import Asked, read_facts
from .preflight.rule import PreflightFinding
from .preflight.rules import preflight
from .proof import differences
from .request import Found, KubeProxy
from .residue.engine import read_residue


def stands_against(host: Host, desired: KubeProxy, found: Found) -> list[PreflightFinding]:
    """What the checks before a change to `desired.mode` find; empty where nothing stands against it."""
    asked = Asked(
        from_mode=str(fields(found.proxy.value)["mode"]),
        to_mode=desired.mode,
        config=found.config,
        wanted_config=merged(found.config, {**desired.config, "mode": desired.mode}),
        kube_proxy_version=read_version(host, found.config),
        deployment=desired.where.deployment,
        node_name=found.node,
        snapshot=snapshot(installation.api(host, desired.where, found.config), found.node),
        metrics=read_metrics(host, found.config),
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


def inspected(host: Host, desired: KubeProxy, found: Found, *, audit: bool) -> dict[str, Any]:
    mode = str(fields(found.proxy.value)["mode"])
    reason = not_in_order(host, found.config, mode) if mode else "it does not answer"
    bridged = any(one.kind == "bridge" for one in found.recorded)
    report: dict[str, Any] = {
        "in_order": not reason,
        "reason": reason,
        "residue": [asdict(one) for one in read_residue(host, mode, bridged)] if mode else [],
        "preflight": [],
        "differences": [],
    }
    if desired.mode and desired.mode != mode:
        report["preflight"] = [asdict(one) for one in stands_against(host, desired, found)]
    if audit and mode:
        report["differences"] = _audited(host, desired, found.config, mode, found.node)
    return report


def _audited(host: Host, desired: KubeProxy, config: Mapping[str, Any], mode: str, node: str) -> list[str]:
    """An API that is away is told of as a difference: nobody knows that there is none."""
    try:
        data = snapshot(installation.api(host, desired.where, config), node)
        variant = installation.iptables_variant(host, desired.where)
        return differences(host, data, config, mode=mode, node=node, variant=variant)
    except PeerError as error:
        return [error.in_one_line]
