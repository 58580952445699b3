# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host keeps of the options that its instances were made with, so that they can be changed without who made them.

STATE_DIR/options.json      as the last run was given them, without keys
STATE_DIR/NAME/pki          the keys
STATE_DIR/NAME/kube-proxy   what ballast.kube.kube_proxy records of a change of the instance's kube-proxy
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Optional

from .._core.host import Host, LocalHost
from .._core.kinds import file
from .._core.ledger import ledger_path
from .._core.plan import Resource
from .model import CREDENTIALS, Desired, Instance, Taint, desired_from_params


def options_file(desired: Desired, group: str) -> Resource:
    return file(_path(desired.state_dir), json.dumps(_options(desired), indent=1) + "\n", group=group)


def read_options(host: Host, state_dir: str) -> Optional[dict[str, Any]]:
    """None where there are none, or the file is none of ours."""
    try:
        found = json.loads(host.read(_path(state_dir)) or b"null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def desired_over_record(params: Mapping[str, Any], host: Optional[Host] = None) -> Desired:
    """The instances keep a kube-proxy that was changed, and, where neither the certificate nor keys are given, their own."""
    desired = desired_from_params(params)
    if desired.state != "present":
        return desired
    there = host or LocalHost()
    desired = replace(
        desired, instances=tuple(_with_kube_proxy(one, desired.state_dir, there) for one in desired.instances)
    )
    if params["ca"] is not None or params["credentials"] is not None:
        return desired
    found = {one.name: _keys(there, os.path.join(desired.state_dir, one.name, "pki")) for one in desired.instances}
    authorities = [keys.pop("ca.crt") for keys in found.values()]
    return replace(desired, ca=next((text for text in authorities if text), ""), credentials=found)


def _with_kube_proxy(one: Instance, state_dir: str, host: Host) -> Instance:
    """A recorded change is kube_proxy's to take back: written over here, it would come to light at the next restart, without a bridge."""
    home = os.path.join(state_dir, one.name)
    if not host.read(ledger_path(os.path.join(home, "kube-proxy"))):
        return one
    text = host.read(os.path.join(home, "etc/kube-proxy.json")) or b""
    return replace(one, kube_proxy_config=text.decode(errors="replace"))


def _path(state_dir: str) -> str:
    return os.path.join(state_dir, "options.json")


def _keys(host: Host, pki: str) -> dict[str, str]:
    """By file name; empty texts where there are none."""
    names = ["ca.crt", *(f"{name}.{end}" for name in CREDENTIALS for end in ("crt", "key"))]
    return {name: (host.read(os.path.join(pki, name)) or b"").decode(errors="replace") for name in names}


def _options(desired: Desired) -> dict[str, Any]:
    return {
        "lab": desired.lab,
        "instances": [_instance(one) for one in desired.instances],
        "bridge": desired.bridge,
        "gateway": desired.gateway,
        "api_server": desired.api_server,
        "cluster_cidr": desired.cluster_cidr,
        "kube_proxy": desired.kube_proxy,
        "bin_dir": desired.bin_dir,
        "kubernetes_version": desired.kubernetes_version,
        "cgroup_driver": desired.cgroup_driver,
        "archives": [{"path": one.path, "images": dict(one.images)} for one in desired.archives],
    }


def _instance(one: Instance) -> dict[str, Any]:
    """Without what is not set."""
    row = {
        "name": one.name,
        "address": one.address,
        "pod_cidr": one.pod_cidr,
        "labels": dict(one.labels),
        "taints": [_taint(taint) for taint in one.taints],
        "startup_taints": [_taint(taint) for taint in one.startup_taints],
        "cpu": None if one.cpu_millis is None else f"{one.cpu_millis}m",
        "memory": None if one.memory_bytes is None else str(one.memory_bytes),
        "pids": one.pids,
        "proxy_backend": one.proxy_backend,
        "runtime": one.runtime,
        "stopped": one.stopped,
    }
    return {name: value for name, value in row.items() if value not in (None, {}, [], False)}


def _taint(taint: Taint) -> dict[str, str]:
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}
