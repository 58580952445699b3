# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the API server has of kube-proxy: both DaemonSets, their ConfigMaps, their pods, and the labels of the nodes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional
from urllib.parse import quote

from ...._core.errors import BallastError
from ...._core.host import Host
from ...._core.kubeapi import Api
from ...._core.kubeconfig import credentials
from ..installation import MODE_LABEL
from .messages import MESSAGES
from .model import Desired
from .objects import HASH, Object, is_canary_of

NODES = "/api/v1/nodes"
_CONTROLLER_SECONDS = 30


@dataclass(frozen=True)
class Pod:
    name: str
    node: str
    hash: str
    ready: bool  # and not about to end
    why: str  # it is not ready, as observed


@dataclass(frozen=True)
class Found:
    """`config_map` and `daemonset` are the original's. What there is of the mode's canary may be in part."""

    config_map: Object
    daemonset: Object
    canary_map: Optional[Object]
    canary_set: Optional[Object]
    pods: tuple[Pod, ...]  # of the original
    canary_pods: tuple[Pod, ...]
    labels: Mapping[str, str]  # of each node, the mode that its label names; "" for none


def api_of(desired: Desired, host: Host) -> Api:
    data = host.read(desired.kubeconfig)
    if data is None:
        raise MESSAGES.error("daemonset-kubeconfig", path=desired.kubeconfig)
    text = data.decode(errors="replace")
    return Api(host, credentials(text, base_dir=os.path.dirname(desired.kubeconfig), name=desired.kubeconfig))


def read(desired: Desired, api: Api, host: Host) -> Found:
    daemonset = seen_by_controller(desired, api, host, desired.name)
    if daemonset is None:
        raise _none(desired, "DaemonSet")
    daemonset = _well(daemonset, desired)
    config_map = api.find(desired.map_path(desired.name))
    if config_map is None:
        raise _none(desired, "ConfigMap")
    canary_set = _ours(desired, "DaemonSet", seen_by_controller(desired, api, host, desired.canary))
    return Found(
        config_map=_well(config_map, desired),
        daemonset=daemonset,
        canary_map=_ours(desired, "ConfigMap", api.find(desired.map_path(desired.canary))),
        canary_set=canary_set,
        pods=pods_of(desired, api, daemonset),
        canary_pods=pods_of(desired, api, canary_set) if canary_set else (),
        labels={node["metadata"]["name"]: _label(node) for node in api.list(NODES).items},
    )


def original_set(desired: Desired, api: Api) -> Object:
    daemonset = api.find(desired.set_path(desired.name))
    if daemonset is None:
        raise _none(desired, "DaemonSet")
    return _well(daemonset, desired)


def seen_by_controller(desired: Desired, api: Api, host: Host, name: str) -> Optional[Object]:
    """The DaemonSet of that name, when the controller has counted the nodes for it as it is now: until then its status and
    its pods are of what was before."""
    deadline = host.monotonic() + _CONTROLLER_SECONDS
    while True:
        daemonset = api.find(desired.set_path(name))
        if daemonset is None or scheduled(daemonset) is not None:
            return daemonset
        if host.monotonic() > deadline:
            raise MESSAGES.error("daemonset-controller", name=name, seconds=_CONTROLLER_SECONDS)
        host.sleep(0.2)


def pods_of(desired: Desired, api: Api, daemonset: Object) -> tuple[Pod, ...]:
    """Its own, by the reference to their controller; by node."""
    labels = daemonset["spec"]["selector"].get("matchLabels") or {}
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    listed = api.list(desired.pods_path, {"labelSelector": selector}).items
    uid = daemonset["metadata"].get("uid")
    own = [pod for pod in listed if any(row.get("uid") == uid for row in _owners(pod))]
    return tuple(sorted((_pod(pod) for pod in own), key=lambda pod: (pod.node, pod.name)))


def scheduled(daemonset: Object) -> Optional[int]:
    """On how many nodes its pods belong; None while the controller has not seen its newest form."""
    status = daemonset.get("status") or {}
    if status.get("observedGeneration", 0) < daemonset["metadata"].get("generation", 0):
        return None
    return int(status.get("desiredNumberScheduled", 0))


def revisions(desired: Desired, api: Api, daemonset: Object) -> list[Object]:
    """The ControllerRevisions of a DaemonSet: each template that it has had. The newest first."""
    uid = daemonset["metadata"].get("uid")
    listed = api.list(desired.revisions_path).items
    own = [one for one in listed if any(row.get("uid") == uid for row in _owners(one))]
    return sorted(own, key=lambda one: -int(one.get("revision") or 0))


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


def _owners(found: Object) -> list[Any]:
    owners = found["metadata"].get("ownerReferences") or []
    return [row for row in owners if isinstance(row, dict) and row.get("controller")]


def _well(found: Object, desired: Desired) -> Object:
    """The parts that are gone into are objects, whoever answered."""
    spec = found.get("spec", {"selector": {}, "template": {"metadata": {}, "spec": {}}})
    parts = [found.get("metadata"), spec]
    if isinstance(spec, dict):
        template = spec.get("template")
        parts += [spec.get("selector"), template]
        parts += [template.get("metadata"), template.get("spec")] if isinstance(template, dict) else []
    if not all(isinstance(part, dict) for part in parts):
        raise MESSAGES.error("daemonset-shape", name=desired.name, reason="the API server answered with no such object")
    return found


def _ours(desired: Desired, kind: str, found: Optional[Object]) -> Optional[Object]:
    if found is not None and not is_canary_of(_well(found, desired), desired):
        raise MESSAGES.error("daemonset-foreign", kind=kind, name=desired.canary)
    return found


def _none(desired: Desired, kind: str) -> BallastError:
    return MESSAGES.error("daemonset-none", kind=kind, name=desired.name, namespace=desired.namespace)
