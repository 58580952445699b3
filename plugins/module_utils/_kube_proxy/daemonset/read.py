# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads kube-proxy's objects from the API: both DaemonSets, their ConfigMaps and pods, and the labels of the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional
from urllib.parse import quote

from ..._core.engine.wait import wait_until
from ..._core.host.host import Host
from ..._core.kube.client import Api
from ..._core.kube.connection import connect, is_missing
from ..._core.text.errors import BallastError
from ..._kubelet.owners import owner_by_nodes
from ..installation import MODE_LABEL
from .messages import MESSAGES
from .model import DaemonSetRequest
from .objects import HASH, Object, is_canary_of

NODES = "/api/v1/nodes"
_CONTROLLER_SECONDS = 30


@dataclass(frozen=True)
class Pod:
    name: str
    node: str
    hash: str
    ready: bool  # and not terminating
    why: str  # why it is not ready


@dataclass(frozen=True)
class DaemonSetState:
    """`config_map` and `daemonset` are the original's. Objects of the canary may be missing."""

    config_map: Object
    daemonset: Object
    canary_map: Optional[Object]
    canary_set: Optional[Object]
    pods: tuple[Pod, ...]  # the original's
    canary_pods: tuple[Pod, ...]
    labels: Mapping[str, str]  # for each node, the mode in its label; "" for none


def api_of(desired: DaemonSetRequest, host: Host) -> Api:
    """A client with the kubeconfig of the request. `daemonset-kubeconfig` if that file is missing."""
    if is_missing(desired.kubeconfig, lambda path: host.stat(path) is not None):
        raise MESSAGES.error("daemonset-kubeconfig", path=desired.kubeconfig)
    return connect(host, desired.kubeconfig, desired.context)


def read(desired: DaemonSetRequest, api: Api, host: Host) -> DaemonSetState:
    """Everything that the plan needs. Raises `daemonset-none` if the original DaemonSet or ConfigMap is missing, and
    `daemonset-owner-...` if we may not change this cluster's kube-proxy."""
    nodes = api.list(NODES).items
    daemonset = wait_for_controller(desired, api, host, desired.name)
    owner = owner_by_nodes(nodes, daemonset)
    if owner is not None:
        raise MESSAGES.error(f"daemonset-owner-{owner.name}")
    if daemonset is None:
        raise _missing(desired, "DaemonSet")
    daemonset = _check(daemonset, desired)
    config_map = api.find(desired.map_path(desired.name))
    if config_map is None:
        raise _missing(desired, "ConfigMap")
    canary_set = _checked_canary(desired, "DaemonSet", wait_for_controller(desired, api, host, desired.canary))
    return DaemonSetState(
        config_map=_check(config_map, desired),
        daemonset=daemonset,
        canary_map=_checked_canary(desired, "ConfigMap", api.find(desired.map_path(desired.canary))),
        canary_set=canary_set,
        pods=list_pods(desired, api, daemonset),
        canary_pods=list_pods(desired, api, canary_set) if canary_set else (),
        labels={node["metadata"]["name"]: _label(node) for node in nodes},
    )


def read_original(desired: DaemonSetRequest, api: Api) -> Object:
    """The original DaemonSet, freshly read. `daemonset-none` if it is missing."""
    daemonset = api.find(desired.set_path(desired.name))
    if daemonset is None:
        raise _missing(desired, "DaemonSet")
    return _check(daemonset, desired)


def wait_for_controller(desired: DaemonSetRequest, api: Api, host: Host, name: str) -> Optional[Object]:
    """The DaemonSet of that name; None if there is none. Waits until the controller has counted its nodes: before that, its
    status and pods reflect the former template."""
    daemonset: Optional[Object] = None

    def is_seen() -> bool:
        nonlocal daemonset
        daemonset = api.find(desired.set_path(name))
        return daemonset is None or count_scheduled(daemonset) is not None

    if not wait_until(host, is_seen, seconds=_CONTROLLER_SECONDS, interval=0.2):
        raise MESSAGES.error("daemonset-controller", name=name, seconds=_CONTROLLER_SECONDS)
    return daemonset


def list_pods(desired: DaemonSetRequest, api: Api, daemonset: Object) -> tuple[Pod, ...]:
    """The pods whose controller is the DaemonSet, sorted by node."""
    labels = daemonset["spec"]["selector"].get("matchLabels") or {}
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    listed = api.list(desired.pods_path, {"labelSelector": selector}).items
    uid = daemonset["metadata"].get("uid")
    own = [pod for pod in listed if any(row.get("uid") == uid for row in _owners(pod))]
    return tuple(sorted((_pod(pod) for pod in own), key=lambda pod: (pod.node, pod.name)))


def count_scheduled(daemonset: Object) -> Optional[int]:
    """The number of nodes that the DaemonSet is for; None until the controller has processed its newest version."""
    status = daemonset.get("status") or {}
    if status.get("observedGeneration", 0) < daemonset["metadata"].get("generation", 0):
        return None
    return int(status.get("desiredNumberScheduled", 0))


def list_revisions(desired: DaemonSetRequest, api: Api, daemonset: Object) -> list[Object]:
    """The DaemonSet's ControllerRevisions (its templates so far), newest first."""
    uid = daemonset["metadata"].get("uid")
    listed = api.list(desired.revisions_path).items
    own = [revision for revision in listed if any(row.get("uid") == uid for row in _owners(revision))]
    return sorted(own, key=lambda revision: -int(revision.get("revision") or 0))


def node_path(name: str) -> str:
    return f"{NODES}/{quote(name, safe='')}"


def _pod(pod: Object) -> Pod:
    status = pod.get("status") or {}
    conditions = {row.get("type"): row.get("status") for row in status.get("conditions") or []}
    metadata = pod["metadata"]
    waiting = [
        ((row.get("state") or {}).get("waiting") or {}).get("reason") for row in status.get("containerStatuses") or []
    ]
    ending = bool(metadata.get("deletionTimestamp"))
    return Pod(
        name=metadata["name"],
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        hash=str((metadata.get("labels") or {}).get(HASH, "")),
        ready=conditions.get("Ready") == "True" and not ending,
        why="ending" if ending else next((str(reason) for reason in waiting if reason), "starting"),
    )


def _label(node: Object) -> str:
    return str((node["metadata"].get("labels") or {}).get(MODE_LABEL, ""))


def _owners(item: Object) -> list[Any]:
    owners = item["metadata"].get("ownerReferences") or []
    return [row for row in owners if isinstance(row, dict) and row.get("controller")]


def _check(item: Object, desired: DaemonSetRequest) -> Object:
    """PeerError if a part that we read is not an object, which no API server would return."""
    spec = item.get("spec", {"selector": {}, "template": {"metadata": {}, "spec": {}}})
    parts = [item.get("metadata"), spec]
    if isinstance(spec, dict):
        template = spec.get("template")
        parts += [spec.get("selector"), template]
        parts += [template.get("metadata"), template.get("spec")] if isinstance(template, dict) else []
    if not all(isinstance(part, dict) for part in parts):
        raise MESSAGES.error("daemonset-shape", name=desired.name, reason="the API server returned no such object")
    return item


def _checked_canary(desired: DaemonSetRequest, kind: str, item: Optional[Object]) -> Optional[Object]:
    if item is not None and not is_canary_of(_check(item, desired), desired):
        raise MESSAGES.error("daemonset-foreign", kind=kind, name=desired.canary)
    return item


def _missing(desired: DaemonSetRequest, kind: str) -> BallastError:
    return MESSAGES.error("daemonset-none", kind=kind, name=desired.name, namespace=desired.namespace)
