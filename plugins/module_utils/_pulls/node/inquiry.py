# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `image_pulls_info` returns, and what a reading of production readiness takes besides."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from ..._core.errors import BallastError
from ..._core.exposition import Sample, parse_exposition
from ..._core.host import Host
from ..._core.ledger import Ledger, ledger_path
from ..._core.plan import Recorded
from ..._core.readiness import Reading, off
from ..._core.surveying import read_open_files, unread
from . import kubelet
from .containerd import unhealthy
from .containerd_tables import CRI_V2, DOWNLOADS
from .engine import KINDS, read
from .model import ImagePulls, Where
from .readings import METRICS, NAME, Facts, Level, reading_of
from .report import Seen
from .toml import PENDING, number, tables

_LEVELS = {"kubelet-drop-in": "kubelet", "proxy-limits": "host"}  # the others are of the runtime
_UNIX = "unix://"


def read_params(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    desired, seen = ImagePulls.to_read(params), Seen()
    found = read(host, desired, seen)
    return {**found, "readiness": _reading(host, desired, found, seen).as_json()} if params["readiness"] else found


def _reading(host: Host, desired: ImagePulls, levels: Mapping[str, Any], seen: Seen) -> Reading:
    path = ledger_path(desired.state_dir)
    try:
        ledger = Ledger(path, host=host, kinds=KINDS)
    except BallastError as error:
        return unread(NAME, error, path)
    if not ledger.recorded and not ledger.open:
        return off(NAME, "nothing of ours limits the image pulls of this node", f"{path}, which is not there")
    ours = _Ours()
    for one in ledger.recorded:
        _look_at(host, one, ours)
    metrics, problem = _metrics(host, desired.where, seen)
    runtime = seen.containerd
    facts = Facts(
        state_dir=desired.state_dir,
        recorded=ledger.recorded,
        unfinished=ledger.open,
        levels=levels,
        errors=seen.errors,
        set_here=ours.settings,
        gone=tuple(ours.gone),
        pending=tuple(ours.pending),
        kubelet_problem=_kubelet_problem(host, seen),
        runtime_problem=_runtime_problem(host, seen),
        proxy_problem=_proxy_problem(host, ours, levels["host"]),
        open_files=read_open_files(host, "containerd", None if runtime is None else runtime.pid),
        metrics=metrics,
        metrics_place=_place(desired.where, seen),
        metrics_problem=problem,
    )
    return reading_of(facts)


@dataclass
class _Ours:
    """See Facts."""

    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)


def _look_at(host: Host, one: Recorded, ours: _Ours) -> None:
    settings = ours.settings.setdefault(_LEVELS.get(one.kind, "runtime"), {})
    if one.kind == "proxy-limits":  # what it works with, its own reading tells
        return
    data = host.read(one.target)
    if data is None:
        ours.gone.append(one.target)
        return
    text = data.decode(errors="replace")
    if PENDING in text:
        ours.pending.append(one.target)
    settings.update(_settings(one.kind, text))


def _settings(kind: str, text: str) -> Mapping[str, Any]:
    if kind == "kubelet-drop-in":
        return kubelet.drop_in_settings(text)
    if kind != "containerd-number":
        return {key: value for table, keys in tables(text).items() if table for key, value in keys.items()}
    try:
        found = number(text, CRI_V2, DOWNLOADS)
    except ValueError:  # the table is not there once: `errors` of the runtime say so
        return {}
    return {DOWNLOADS: found} if isinstance(found, int) else {}


def _kubelet_problem(host: Host, seen: Seen) -> str:
    if seen.kubelet is None:
        return "; ".join(error.in_one_line for error in seen.errors.get("kubelet", ()))
    return "the kubelet does not run" if seen.kubelet.pid is None else kubelet.unhealthy(host, seen.kubelet)


def _runtime_problem(host: Host, seen: Seen) -> str:
    """Of one that could not be found, or is CRI-O, nothing: the former is a dependency that is missing, the latter has said
    its settings itself. One that runs and can no longer read its files will not start anew."""
    if seen.containerd is None:
        return ""
    if not seen.config:
        return "; ".join(error.in_one_line for error in seen.errors.get("runtime", ()))
    try:
        return unhealthy(host, seen.containerd, seen.config)
    except BallastError as error:
        return error.in_one_line


def _proxy_problem(host: Host, ours: _Ours, proxy: Level) -> str:
    """`proxy` is the level of the host. A proxy that is not of this collection is known by its socket alone."""
    endpoint = str(ours.settings.get("kubelet", {}).get("imageServiceEndpoint") or "")
    path = endpoint[len(_UNIX) :] if endpoint.startswith(_UNIX) else endpoint
    if not path:
        return ""
    stat = host.stat(path) if os.path.isabs(path) else None
    if stat is None or stat.kind != "socket":
        return f"there is no socket {path}"
    return "the pull proxy of this host does not answer" if proxy.get("installed") and not proxy.get("running") else ""


def _metrics(host: Host, where: Where, seen: Seen) -> tuple[Optional[tuple[Sample, ...]], Optional[BallastError]]:
    if seen.kubelet is None or seen.kubelet.pid is None:
        return None, None
    try:
        return parse_exposition(kubelet.read_metrics(host, where, seen.kubelet), METRICS), None
    except BallastError as error:
        return None, error


def _place(where: Where, seen: Seen) -> str:
    name = where.node_name if seen.kubelet is None else kubelet.node_name(where, seen.kubelet)
    return f"`kubectl get --raw /api/v1/nodes/{name}/proxy/metrics`"
