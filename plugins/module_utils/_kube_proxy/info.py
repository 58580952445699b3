# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `kube_proxy_info` returns: the state of a node's kube-proxy, and its production readiness report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._core.engine.context import Context
from .._core.host.host import Host
from .engine import ENGINE, describe
from .find import locate
from .inspection import audit_rules, inspect
from .readiness_answers import Look, is_off, not_here, reading
from .request import PREVIOUS, KubeProxyRequest
from .sources import Sources

if TYPE_CHECKING:
    # As in feature.py: the plan compares the program with its sources, which Ansible copies with what imports them.
    from . import watchdog  # noqa: F401


def read(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    request = KubeProxyRequest.to_read(params)
    if params["readiness"] and is_off(host, request):
        return {"readiness": not_here(request).as_json()}
    desired = locate(request, host)
    ctx = Context(desired, host)
    state = ENGINE.observe(ctx)
    sources = Sources(host, desired.where, state)
    audit = audit_rules(host, desired, state, sources) if params["audit_rules"] or params["readiness"] else None
    report = {**describe(ctx, state), **inspect(host, desired, state, sources, audit)}
    if audit is None or not params["readiness"]:
        return report
    plan = ENGINE.plan(replace(desired, state=PREVIOUS), state)
    look = Look(host, desired, state, sources, report, audit, plan.steps)
    return {**report, "readiness": reading(look).as_json()}
