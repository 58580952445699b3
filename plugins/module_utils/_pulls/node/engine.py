# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's limits of image pulls: of its kubelet, of its container runtime, and of the host's pull proxy.

    containerd or CRI-O   a drop-in, or one number in containerd's main file before 2.0; restarted and verified
    kubelet               a drop-in in --config-dir, and that flag if kubeadm's unit lacks it; or a patch for kubeadm, which
                          writes the kubelet's file; restarted once and verified
    pull proxy            keys of its settings; reloaded and verified

Each is a step in the node's journal. After a failure the steps are undone, newest first. So does the next run after a kill: it
restores the former file and restarts the service. An omitted option returns to its value before the first run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from ..._core.engine.context import Context
from ..._core.engine.engine import Finding, ResourceEngine
from ..._core.engine.kinds import Kind, fields
from ..._core.engine.plan import ABSENT, Plan, Policy, Recorded, Resource, Value
from ..._core.host.host import Host
from ..._core.text.errors import BallastError, Problems
from ..._kubelet.config import find_config_dir
from ..._kubelet.find import Kubelet
from . import kubelet
from .config_dir import (
    DIRECTORY,
    DIRECTORY_KIND,
    ConfigDirKind,
    DropInDirectoryKind,
    config_dir_resource,
    directory_resource,
)
from .config_dir import KIND as _CONFIG_DIR
from .containerd import ContainerdDropInKind, ContainerdNumberKind, containerd_resource, find_containerd
from .crio import CrioDropInKind, crio_resource
from .drop_in import drop_in
from .kubeadm_patch import KIND as _PATCH
from .kubeadm_patch import KubeadmPatchKind, patch_resource
from .kubelet import KubeletKind
from .managed import MANAGED
from .messages import MESSAGES
from .model import CRIO, ImagePullsRequest
from .proxy_limits import ProxyLimitsKind, proxy_resource
from .report import Seen, read_levels
from .runtime import find_runtime

_KUBELET, _CONTAINERD, _NUMBER, _CRIO = "kubelet-drop-in", "containerd-drop-in", "containerd-number", "crio-drop-in"
_PROXY = "proxy-limits"


class ImagePullsEngine(ResourceEngine[ImagePullsRequest]):
    name = "image-pulls"
    policy = Policy.UNDO
    kinds: Mapping[str, Kind] = {
        DIRECTORY_KIND: DropInDirectoryKind(),
        _KUBELET: KubeletKind(),
        _CONFIG_DIR: ConfigDirKind(),
        _PATCH: KubeadmPatchKind(),
        _CONTAINERD: ContainerdDropInKind(),
        _NUMBER: ContainerdNumberKind(),
        _CRIO: CrioDropInKind(),
        _PROXY: ProxyLimitsKind(),
    }

    def wanted(self, ctx: Context[ImagePullsRequest]) -> list[Resource]:
        """The node's setup decides where each limit is set. Raises the errors of all levels at once."""
        journal = self.journal(ctx)
        try:
            return _build_resources(ctx.desired, ctx.host, journal.recorded)
        except BallastError:
            if not journal.open:
                raise
            return []  # the killed run is undone first; then this is called again

    def diff(self, plan: Plan) -> list[dict[str, str]]:
        """Files as text; the proxy's limits as JSON."""
        return [
            {
                "before_header": step.title,
                "after_header": step.title,
                "before": _show(step.before),
                "after": _show(step.after),
            }
            for step in plan.steps
        ]

    def verify(self, ctx: Context[ImagePullsRequest]) -> list[Finding]:
        """For runs without steps, as steps verify themselves. Also reports what cannot be read."""
        desired, host = ctx.desired, ctx.host
        if not desired.kubelet:
            return []
        resource = next(
            each
            for each in _kubelet(desired, host, _by_kind(self.journal(ctx).recorded))
            if each.kind in (_KUBELET, _PATCH)
        )
        try:
            effective = kubelet.read_in_effect(host, desired.layout, kubelet.find_kubelet(host, desired.layout))
            kubelet.require_kubelet_has(
                kubelet.drop_in_settings(str(fields(resource.value)["text"])), effective, resource.target
            )
        except BallastError as error:
            return [_finding(error)]
        return []

    def report(self, ctx: Context[ImagePullsRequest]) -> dict[str, object]:
        return read_levels(ctx.host, ctx.desired.layout, Seen())


ENGINE = ImagePullsEngine()


def _build_resources(desired: ImagePullsRequest, host: Host, recorded: tuple[Recorded, ...]) -> list[Resource]:
    """The resources in the order of application. First refuses a node that is not ours to configure; then raises the errors of all
    levels at once."""
    refuse_managed(desired, host)
    problems: list[BallastError] = []
    resources: list[Resource] = []
    targets = _by_kind(recorded)
    levels: list[tuple[Mapping[str, Any], Callable[[], list[Resource]]]] = [
        (desired.runtime, lambda: [_runtime(desired, host, targets)]),
        (desired.kubelet, lambda: _kubelet(desired, host, targets)),
        (desired.host, lambda: [_proxy(desired, host, targets)]),
    ]
    for settings, make in levels:
        if settings:
            try:
                resources += make()
            except BallastError as error:
                problems += Problems.of(error)
    Problems.raise_if(problems)
    return resources


def _by_kind(recorded: tuple[Recorded, ...]) -> dict[str, Recorded]:
    return {entry.kind: entry for entry in recorded}


def refuse_managed(desired: ImagePullsRequest, host: Host) -> None:
    """Refuse a node whose distribution rewrites the files of kubelet and runtime at each start. Removing earlier settings is allowed."""
    if not desired.kubelet and not desired.runtime:
        return
    try:
        distribution = kubelet.find_kubelet(host, desired.layout).distribution
    except BallastError:
        return  # the level that needs a kubelet reports it
    if distribution is not None:
        raise MESSAGES.error(MANAGED[distribution.name], name=distribution.name)


def _runtime(desired: ImagePullsRequest, host: Host, recorded: Mapping[str, Recorded]) -> Resource:
    name, service = find_runtime(host, desired.layout)
    if name == CRIO:
        return crio_resource(host, service, desired.runtime)
    there = recorded.get(_CONTAINERD)
    containerd = find_containerd(host, service, desired.layout.runtime_config)
    return containerd_resource(host, containerd, desired.runtime, None if there is None else there.target)


def _kubelet(desired: ImagePullsRequest, host: Host, recorded: Mapping[str, Recorded]) -> list[Resource]:
    layout = desired.layout
    running = kubelet.find_kubelet(host, layout)
    if running.pid is None:
        service = layout.kubelet_service
        raise MESSAGES.error("pulls-node-service", option="kubelet_service", service=service, what="the kubelet")
    problems = [
        MESSAGES.error("pulls-node-flag", found=", ".join(flag.places), flag=flag.flag, key=flag.key)
        for flag in kubelet.find_overriding_flags(host, running, tuple(desired.kubelet))
    ]
    make = _kubeadm_patch if desired.kubeadm_patches else _kubelet_drop_in
    resources: list[Resource] = []
    try:
        resources = make(desired, host, running, recorded)
    except BallastError as error:
        problems.append(error)
    Problems.raise_if(problems)
    return resources


def _kubeadm_patch(
    desired: ImagePullsRequest, host: Host, running: Kubelet, recorded: Mapping[str, Recorded]
) -> list[Resource]:
    directory = desired.kubeadm_patches
    return [
        *directory_resource(host, directory, recorded),
        patch_resource(host, running, directory, desired.kubelet),
    ]


def _kubelet_drop_in(
    desired: ImagePullsRequest, host: Host, running: Kubelet, recorded: Mapping[str, Recorded]
) -> list[Resource]:
    flag = config_dir_resource(host, running, desired.layout.kubelet_service, recorded)
    path = os.path.join(DIRECTORY if flag else find_config_dir(host, running), kubelet.FILE_NAME)
    file = drop_in(_KUBELET, path, kubelet.drop_in_text(desired.kubelet), title=f"the kubelet's drop-in {path}")
    # In this order the kubelet starts once, with both; removed in reverse, it starts once, without them.
    return [file] if flag is None else [*directory_resource(host, DIRECTORY, recorded), file, flag]


def _proxy(desired: ImagePullsRequest, host: Host, recorded: Mapping[str, Recorded]) -> Resource:
    there = recorded.get(_PROXY)
    return proxy_resource(host, desired.host, ABSENT if there is None else there.original)


def _finding(error: BallastError) -> Finding:
    """Only a value that differs is a blocker; one that could not be read is a warning."""
    blocking = error.id == "pulls-node-not-in-effect"
    if not blocking and error.id != "pulls-node-not-read-back":
        error = MESSAGES.error("pulls-node-not-read-back", why=error.in_one_line)
    return Finding(error.id, "kubelet", error.in_one_line, error.remedy, blocking=blocking)


def _show(value: Value) -> str:
    if value == ABSENT:
        return ""
    parts = fields(value)
    return str(parts["text"]) if "text" in parts else json.dumps(parts, indent=2, sort_keys=True) + "\n"
