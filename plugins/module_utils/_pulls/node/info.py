# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `image_pulls_info` returns; with `readiness: true` including the verdicts on production readiness."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from ..._core.engine.journal import Journal, journal_path
from ..._core.engine.plan import Recorded
from ..._core.engine.readiness import Reading, off_reading
from ..._core.engine.readiness_common import read_open_files, unknown_reading
from ..._core.host.host import Host
from ..._core.text.errors import BallastError
from ..._core.text.exposition import Sample, parse_exposition
from . import kubelet
from .config_dir import DIRECTORY_KIND
from .config_dir import KIND as CONFIG_DIR_KIND
from .containerd import check_health
from .containerd_tables import CRI_V2, DOWNLOADS
from .engine import ENGINE
from .kubeadm_patch import KIND as KUBEADM_PATCH
from .model import ImagePullsRequest, NodeLayout
from .readiness_answers import METRICS, NAME, Facts, Level, reading_of
from .report import Seen, read_levels
from .toml import PENDING, parse_tables, read_number

_DROP_IN, _PROXY = "kubelet-drop-in", "proxy-limits"
_KUBELET = (_DROP_IN, DIRECTORY_KIND, CONFIG_DIR_KIND, KUBEADM_PATCH)
_LEVELS = {**dict.fromkeys(_KUBELET, "kubelet"), _PROXY: "host"}  # the other kinds are "runtime"
_UNIX = "unix://"


def read_params(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    desired, seen = ImagePullsRequest.to_read(params), Seen()
    levels = read_levels(host, desired.layout, seen)
    return {**levels, "readiness": _reading(host, desired, levels, seen).as_json()} if params["readiness"] else levels


def _reading(host: Host, desired: ImagePullsRequest, levels: Mapping[str, Any], seen: Seen) -> Reading:
    path = journal_path(desired.state_dir)
    try:
        journal = Journal(path, host=host, kinds=ENGINE.kinds)
    except BallastError as error:
        return unknown_reading(NAME, error, path)
    if not journal.recorded and not journal.open:
        return off_reading(NAME, "the collection limits no image pulls on this node", f"{path}, which does not exist")
    ours = _Ours()
    for entry in journal.recorded:
        _look_at(host, entry, ours)
    metrics, problem = _metrics(host, desired.layout, seen)
    runtime = seen.containerd
    facts = Facts(
        state_dir=desired.state_dir,
        recorded=journal.recorded,
        unfinished=journal.open,
        levels=levels,
        errors=seen.errors,
        set_here=ours.settings,
        gone=tuple(ours.gone),
        pending=tuple(ours.pending),
        kubelet_problem=_kubelet_problem(host, seen),
        runtime_problem=_runtime_problem(host, seen),
        proxy_problem=_proxy_problem(host, ours, levels["host"]),
        open_files=read_open_files(host, "containerd", None if runtime is None else runtime.process.pid),
        metrics=metrics,
        metrics_place=_place(host, seen),
        metrics_problem=problem,
    )
    return reading_of(facts)


@dataclass
class _Ours:
    """The part of Facts about what this collection has set."""

    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)


def _look_at(host: Host, entry: Recorded, ours: _Ours) -> None:
    settings = ours.settings.setdefault(_LEVELS.get(entry.kind, "runtime"), {})
    if entry.kind == _PROXY:  # the level "host" already has the values in effect
        return
    if entry.kind == DIRECTORY_KIND:
        ours.gone += [] if host.stat(entry.target) else [entry.target]
        return
    data = host.read(entry.target)
    if data is None:
        ours.gone.append(entry.target)
        return
    text = data.decode(errors="replace")
    if PENDING in text:
        ours.pending.append(entry.target)
    settings.update(_settings(entry.kind, text))


def _settings(kind: str, text: str) -> Mapping[str, Any]:
    if kind == CONFIG_DIR_KIND:  # a flag, which sets no limit
        return {}
    if kind in (_DROP_IN, KUBEADM_PATCH):
        return kubelet.drop_in_settings(text)
    if kind != "containerd-number":
        return {key: value for table, keys in parse_tables(text).items() if table for key, value in keys.items()}
    try:
        limit = read_number(text, CRI_V2, DOWNLOADS)
    except ValueError:  # not exactly one such table, which `errors` of the runtime reports
        return {}
    return {DOWNLOADS: limit} if isinstance(limit, int) else {}


def _kubelet_problem(host: Host, seen: Seen) -> str:
    if seen.kubelet is None:
        return "; ".join(error.in_one_line for error in seen.errors.get("kubelet", ()))
    return "the kubelet is not running" if seen.kubelet.pid is None else kubelet.check_health(host, seen.kubelet)


def _runtime_problem(host: Host, seen: Seen) -> str:
    """Why the runtime is not healthy. "" if it was not found, which is a missing dependency, and for CRI-O, which itself reported its
    settings. A containerd that can no longer read its files would not survive a restart."""
    if seen.containerd is None:
        return ""
    if not seen.config:
        return "; ".join(error.in_one_line for error in seen.errors.get("runtime", ()))
    try:
        return check_health(host, seen.containerd, seen.config)
    except BallastError as error:
        return error.in_one_line


def _proxy_problem(host: Host, ours: _Ours, proxy: Level) -> str:
    """`proxy` is the level "host". Of a proxy that this collection did not install, only the socket is known."""
    endpoint = str(ours.settings.get("kubelet", {}).get("imageServiceEndpoint") or "")
    path = endpoint[len(_UNIX) :] if endpoint.startswith(_UNIX) else endpoint
    if not path:
        return ""
    stat = host.stat(path) if os.path.isabs(path) else None
    if stat is None or stat.kind != "socket":
        return f"socket {path} does not exist"
    return "the pull proxy of this host does not respond" if proxy.get("installed") and not proxy.get("running") else ""


def _metrics(host: Host, layout: NodeLayout, seen: Seen) -> tuple[Optional[tuple[Sample, ...]], Optional[BallastError]]:
    if seen.kubelet is None or seen.kubelet.pid is None:
        return None, None
    try:
        return parse_exposition(kubelet.read_metrics(host, layout, seen.kubelet), METRICS), None
    except BallastError as error:
        return None, error


def _place(host: Host, seen: Seen) -> str:
    url = "" if seen.kubelet is None else kubelet.kubelet_url(host, seen.kubelet)
    return f"`{url}/metrics`"
