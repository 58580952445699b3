# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans the steps from the present to the desired state. Pure.

    canary      ConfigMap and DaemonSet of the mode are created; then the original leaves nodes with the mode's label to them
    final       the original's ConfigMap gets the mode; node by node, its DaemonSet takes over from the canary's: a node that
                loses the label moves from one to the other. Then the canary's objects are removed, the original's template
                is restored, its pods are labeled as belonging to it, and the nodes get their label back
    absent      the original is restored, and the canary's objects are removed

A run may end after any step: the next plan starts from what exists.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from ..._core.text.json_text import parse_json
from ..config_file import parse_config
from .messages import MESSAGES
from .model import CANARY, FINAL, DaemonSetRequest
from .objects import (
    CONFIG,
    RECORD,
    Object,
    annotations_of,
    canary_map,
    canary_set,
    check_shape,
    finished_map,
    record_of,
    same,
    with_canaries,
    without_canaries,
)
from .read import DaemonSetState, Pod, count_scheduled

# Kinds of steps: keys of the engine's table.
PUT_MAP, PUT_SET, PUT_CONFIG = "canary-config-map", "canary-daemonset", "config-map"
SHARE, MOVE, SETTLE = "shared-nodes", "node", "as-it-was"
REMOVE_SET, REMOVE_MAP = "canary-daemonset-removal", "canary-config-map-removal"
_SHOWN_NODES = 20


@dataclass(frozen=True)
class Step:
    kind: str
    verb: str  # "make", "change" or "remove"
    title: str
    target: str  # API path of the object
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Plan:
    steps: tuple[Step, ...]
    state: DaemonSetState


def plan(desired: DaemonSetRequest, state: DaemonSetState) -> Plan:
    """PeerError if the change would leave a node without kube-proxy, or move a node against its operator's intent."""
    check_shape(state.daemonset, state.config_map, desired)
    record = record_of(state.daemonset)
    if desired.state != FINAL and record.finishing:
        raise MESSAGES.error("daemonset-finishing", mode=record.finishing)
    make = {CANARY: _canary, FINAL: _final}.get(desired.state, _absent)
    return Plan(tuple(make(desired, state)), state)


def _canary(desired: DaemonSetRequest, state: DaemonSetState) -> list[Step]:
    record = record_of(state.daemonset)
    config_map = canary_map(state.config_map, desired)
    shared = desired.mode in record.modes
    if not shared and state.canary_set is None and config_map["data"] == state.config_map["data"]:
        return []  # all nodes have the mode already
    if not shared:
        early = sorted(name for name, mode in state.labels.items() if mode == desired.mode)
        if early:
            raise MESSAGES.error("daemonset-early", mode=desired.mode, nodes=_list(early))
    daemonset = canary_set(state.daemonset, config_map, desired)
    steps = [
        *_put(PUT_MAP, desired.map_path(desired.canary), state.canary_map, config_map),
        *_put(PUT_SET, desired.set_path(desired.canary), state.canary_set, daemonset),
    ]
    original = with_canaries(state.daemonset, sorted({*record.modes, desired.mode}))
    return steps + _put(SHARE, desired.set_path(desired.name), state.daemonset, original)


def _final(desired: DaemonSetRequest, state: DaemonSetState) -> list[Step]:
    record = record_of(state.daemonset)
    if desired.mode not in record.modes:
        return _remove_leftover(desired, state)
    if record.modes != (desired.mode,):
        others = ", ".join(mode for mode in record.modes if mode != desired.mode)
        raise MESSAGES.error("daemonset-other", modes=others, mode=desired.mode)
    if not record.finishing:
        _check_moved(desired, state)
    path = desired.set_path(desired.name)
    shared = with_canaries(state.daemonset, record.modes, finishing=desired.mode)
    settled = without_canaries(state.daemonset)
    data = (state.canary_map or state.config_map)["data"]
    config_map = finished_map(state.config_map, data[CONFIG], desired)
    moves = [
        Step(MOVE, "change", f"node {name}: from DaemonSet {desired.canary} to {desired.name}", name)
        for name in sorted({pod.node for pod in state.canary_pods} | _nodes_to_label(state, desired))
    ]
    if state.canary_set is None:
        moves = []  # the nodes have been moved already, and keep their labels
        shared = state.daemonset
    return [
        *_put(SHARE, path, state.daemonset, shared),
        *_put(PUT_CONFIG, desired.map_path(desired.name), state.config_map, config_map),
        *moves,
        *_remove(REMOVE_SET, desired.set_path(desired.canary), state.canary_set),
        *_put(SETTLE, path, shared, settled),
        *_remove(REMOVE_MAP, desired.map_path(desired.canary), state.canary_map),
    ]


def _absent(desired: DaemonSetRequest, state: DaemonSetState) -> list[Step]:
    record = record_of(state.daemonset)
    if desired.mode not in record.modes and state.canary_set is None and state.canary_map is None:
        return []
    if state.canary_pods or (state.canary_set is not None and count_scheduled(state.canary_set) != 0):
        nodes = {pod.node for pod in state.canary_pods} | _nodes_to_label(state, desired)
        raise MESSAGES.error("daemonset-used", mode=desired.mode, nodes=_list(sorted(nodes)))
    left = [mode for mode in record.modes if mode != desired.mode]
    path = desired.set_path(desired.name)
    steps = _remove(REMOVE_SET, desired.set_path(desired.canary), state.canary_set)
    if left:
        steps += _put(SHARE, path, state.daemonset, with_canaries(state.daemonset, left))
    elif RECORD in annotations_of(state.daemonset):
        steps += _put(SETTLE, path, state.daemonset, without_canaries(state.daemonset))
    return steps + _remove(REMOVE_MAP, desired.map_path(desired.canary), state.canary_map)


def _remove_leftover(desired: DaemonSetRequest, state: DaemonSetState) -> list[Step]:
    """Remove what a run that ended early left, if all nodes have the mode already."""
    text = state.config_map["data"][CONFIG]
    mode = str(parse_config(text, path=f"{CONFIG} of ConfigMap {desired.name}").get("mode") or "")
    if mode != desired.mode or state.canary_set is not None:
        raise MESSAGES.error("daemonset-no-canary", mode=desired.mode, name=desired.name, current=mode or '""')
    return _remove(REMOVE_MAP, desired.map_path(desired.canary), state.canary_map)


def _check_moved(desired: DaemonSetRequest, state: DaemonSetState) -> None:
    """Check that kube-proxy is ready in this mode on every node. The DaemonSet controller's counts decide, since only the
    controller knows which nodes the DaemonSets are for."""
    left = {pod.node for pod in state.pods}
    if left or count_scheduled(state.daemonset) != 0:
        nodes = left or {name for name, mode in state.labels.items() if mode != desired.mode}
        raise MESSAGES.error("daemonset-left", mode=desired.mode, nodes=_list(sorted(nodes)))
    ready = {pod.node for pod in state.canary_pods if pod.ready}
    lacking = ({pod.node for pod in state.canary_pods} | _nodes_to_label(state, desired)) - ready
    if state.canary_set is None or lacking or count_scheduled(state.canary_set) != len(ready):
        nodes = lacking or _nodes_to_label(state, desired)
        shown = {"nodes": _list(sorted(nodes)), "namespace": desired.namespace}
        raise MESSAGES.error("daemonset-not-ready", mode=desired.mode, **shown)


def _nodes_to_label(state: DaemonSetState, desired: DaemonSetRequest) -> set[str]:
    return {name for name, mode in state.labels.items() if mode == desired.mode}


def _put(kind: str, path: str, before: Optional[Object], after: Object) -> list[Step]:
    if same(before, after):
        return []
    title = f"{after['kind']} {after['metadata']['name']}"
    verb = "make" if before is None else "change"
    return [Step(kind, verb, title, path, before=_text(before), after=_text(after))]


def _remove(kind: str, path: str, before: Optional[Object]) -> list[Step]:
    if before is None:
        return []
    return [Step(kind, "remove", f"{before['kind']} {before['metadata']['name']}", path, before=_text(before))]


def _text(item: Optional[Object]) -> str:
    """The fields that we change. The kubeconfig next to the configuration is not shown, because it may contain a token."""
    if item is None:
        return ""
    if "data" in item:
        return str(item["data"].get(CONFIG, ""))
    spec = item["spec"]
    pod = spec["template"]["spec"]
    shown = {
        RECORD: parse_json(annotations_of(item).get(RECORD, "null")),
        "updateStrategy": spec.get("updateStrategy"),
        "nodeSelector": pod.get("nodeSelector"),
        "affinity": pod.get("affinity"),
        "images": [container.get("image") for container in pod.get("containers") or []],
    }
    return json.dumps(shown, indent=1, sort_keys=True) + "\n"


def _list(nodes: Sequence[str]) -> str:
    more = len(nodes) - _SHOWN_NODES
    return ", ".join(nodes[:_SHOWN_NODES]) + (f" and {more} more" if more > 0 else "") or "none has the label"


def nodes_of(pods: Sequence[Pod]) -> list[str]:
    return sorted({pod.node for pod in pods})
