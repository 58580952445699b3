# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `kube_proxy_info` returns: a node's kube-proxy as it is, and what it answers to the production readiness questionnaire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..._core.host import Host
from .engine import ENGINE
from .inspection import audited, inspected
from .readings import Look, is_off, not_here, reading
from .request import PREVIOUS, KubeProxy
from .sources import Sources


def read(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    desired = KubeProxy.to_read(params)
    if params["readiness"] and is_off(host, desired):
        return {"readiness": not_here(desired).as_json()}
    found = ENGINE.observe(desired, host)
    sources = Sources(host, desired.where, found)
    audit = audited(host, desired, found, sources) if params["audit"] or params["readiness"] else None
    report = {**ENGINE.reported(desired, found, host), **inspected(host, desired, found, sources, audit)}
    if audit is None or not params["readiness"]:
        return report
    plan = ENGINE.plan(replace(desired, state=PREVIOUS), found)
    look = Look(host, desired, found, sources, report, audit, plan.steps)
    return {**report, "readiness": reading(look).as_json()}
