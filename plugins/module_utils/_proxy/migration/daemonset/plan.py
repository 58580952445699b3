# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From what there is to what is asked for, as steps. Pure.

    canary      ConfigMap and DaemonSet of the mode; then the original leaves nodes with the mode's label to it
    final       the original's ConfigMap gets the mode; node by node, its DaemonSet takes over from the canary's: a node that
                loses the label is left by the one and entered by the other. Then what the canary had goes, the original's
                template is as it was, its pods are told to be of it, and the nodes have the label again
    absent      the original is as it was, and what the canary had goes

Every step may be the last that a run did: the next plan begins with what is there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from ..config_file import parse_config
from .messages import MESSAGES
from .model import CANARY, FINAL, Desired
from .objects import (
    CONFIG,
    RECORD,
    Object,
    annotations_of,
    as_it_was,
    canary_map,
    canary_set,
    check_shape,
    record_of,
    same,
    with_canaries,
)
from .read import Found, Pod, scheduled

# Kinds of steps: keys of the engine's table.
PUT_MAP, PUT_SET, PUT_CONFIG = "canary-config-map", "canary-daemonset", "config-map"
SHARE, MOVE, SETTLE = "shared-nodes", "node", "as-it-was"
REMOVE_SET, REMOVE_MAP = "canary-daemonset-removal", "canary-config-map-removal"
_TOLD_NODES = 20


@dataclass(frozen=True)
class Step:
    kind: str
    verb: str  # "make", "change" or "remove"
    title: str
    target: str  # path of the object
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Plan:
    steps: tuple[Step, ...]
    found: Found


def plan(desired: Desired, found: Found) -> Plan:
    """PeerError where what is asked for would leave a node without kube-proxy, or move one that nobody meant to move."""
    check_shape(found.daemonset, found.config_map, desired)
    record = record_of(found.daemonset)
    if desired.state != FINAL and record.finishing:
        raise MESSAGES.error("daemonset-finishing", mode=record.finishing)
    make = {CANARY: _canary, FINAL: _final}.get(desired.state, _absent)
    return Plan(tuple(make(desired, found)), found)


def _canary(desired: Desired, found: Found) -> list[Step]:
    record = record_of(found.daemonset)
    config_map = canary_map(found.config_map, desired)
    shared = desired.mode in record.modes
    if not shared and found.canary_set is None and config_map["data"] == found.config_map["data"]:
        return []  # it is the mode of all nodes
    if not shared:
        early = sorted(name for name, mode in found.labels.items() if mode == desired.mode)
        if early:
            raise MESSAGES.error("daemonset-early", mode=desired.mode, nodes=_told(early))
    daemonset = canary_set(found.daemonset, config_map, desired)
    steps = [
        *_put(PUT_MAP, desired.map_path(desired.canary), found.canary_map, config_map),
        *_put(PUT_SET, desired.set_path(desired.canary), found.canary_set, daemonset),
    ]
    wanted = with_canaries(found.daemonset, sorted({*record.modes, desired.mode}))
    return steps + _put(SHARE, desired.set_path(desired.name), found.daemonset, wanted)


def _final(desired: Desired, found: Found) -> list[Step]:
    record = record_of(found.daemonset)
    if desired.mode not in record.modes:
        return _leftover(desired, found)
    if record.modes != (desired.mode,):
        others = ", ".join(mode for mode in record.modes if mode != desired.mode)
        raise MESSAGES.error("daemonset-other", modes=others, mode=desired.mode)
    if not record.finishing:
        _check_moved(desired, found)
    path = desired.set_path(desired.name)
    shared = with_canaries(found.daemonset, record.modes, finishing=desired.mode)
    settled = as_it_was(found.daemonset)
    data = (found.canary_map or found.config_map)["data"]
    config_map = {**found.config_map, "data": {**found.config_map["data"], CONFIG: data[CONFIG]}}
    moves = [
        Step(MOVE, "change", f"node {name}: from DaemonSet {desired.canary} to {desired.name}", name)
        for name in sorted({pod.node for pod in found.canary_pods} | _labelled(found, desired))
    ]
    if found.canary_set is None:
        moves = []  # that was done, and the label is there for whoever asks
        shared = found.daemonset
    return [
        *_put(SHARE, path, found.daemonset, shared),
        *_put(PUT_CONFIG, desired.map_path(desired.name), found.config_map, config_map),
        *moves,
        *_remove(REMOVE_SET, desired.set_path(desired.canary), found.canary_set),
        *_put(SETTLE, path, shared, settled),
        *_remove(REMOVE_MAP, desired.map_path(desired.canary), found.canary_map),
    ]


def _absent(desired: Desired, found: Found) -> list[Step]:
    record = record_of(found.daemonset)
    if desired.mode not in record.modes and found.canary_set is None and found.canary_map is None:
        return []
    if found.canary_pods or (found.canary_set is not None and scheduled(found.canary_set) != 0):
        nodes = {pod.node for pod in found.canary_pods} | _labelled(found, desired)
        raise MESSAGES.error("daemonset-used", mode=desired.mode, nodes=_told(sorted(nodes)))
    left = [mode for mode in record.modes if mode != desired.mode]
    path = desired.set_path(desired.name)
    steps = _remove(REMOVE_SET, desired.set_path(desired.canary), found.canary_set)
    if left:
        steps += _put(SHARE, path, found.daemonset, with_canaries(found.daemonset, left))
    elif RECORD in annotations_of(found.daemonset):
        steps += _put(SETTLE, path, found.daemonset, as_it_was(found.daemonset))
    return steps + _remove(REMOVE_MAP, desired.map_path(desired.canary), found.canary_map)


def _leftover(desired: Desired, found: Found) -> list[Step]:
    """All nodes are of the mode already, but for what a run that ended early left."""
    text = found.config_map["data"][CONFIG]
    mode = str(parse_config(text, path=f"{CONFIG} of ConfigMap {desired.name}").get("mode") or "")
    if mode != desired.mode or found.canary_set is not None:
        raise MESSAGES.error("daemonset-no-canary", mode=desired.mode, name=desired.name, current=mode or '""')
    return _remove(REMOVE_MAP, desired.map_path(desired.canary), found.canary_map)


def _check_moved(desired: Desired, found: Found) -> None:
    """Every node that has kube-proxy has it of the mode, and in order. The controller's own counts decide, since it alone
    knows which nodes the DaemonSets are for."""
    left = {pod.node for pod in found.pods}
    if left or scheduled(found.daemonset) != 0:
        nodes = left or {name for name, mode in found.labels.items() if mode != desired.mode}
        raise MESSAGES.error("daemonset-left", mode=desired.mode, nodes=_told(sorted(nodes)))
    ready = {pod.node for pod in found.canary_pods if pod.ready}
    lacking = ({pod.node for pod in found.canary_pods} | _labelled(found, desired)) - ready
    if found.canary_set is None or lacking or scheduled(found.canary_set) != len(ready):
        nodes = lacking or _labelled(found, desired)
        shown = {"nodes": _told(sorted(nodes)), "namespace": desired.namespace}
        raise MESSAGES.error("daemonset-not-ready", mode=desired.mode, **shown)


def _labelled(found: Found, desired: Desired) -> set[str]:
    return {name for name, mode in found.labels.items() if mode == desired.mode}


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


def _text(found: Optional[Object]) -> str:
    """What we may change of it. The kubeconfig beside the configuration may hold a token, and is not shown."""
    if found is None:
        return ""
    if "data" in found:
        return str(found["data"].get(CONFIG, ""))
    spec = found["spec"]
    pod = spec["template"]["spec"]
    shown = {
        RECORD: json.loads(annotations_of(found).get(RECORD, "null")),
        "updateStrategy": spec.get("updateStrategy"),
        "nodeSelector": pod.get("nodeSelector"),
        "affinity": pod.get("affinity"),
        "images": [container.get("image") for container in pod.get("containers") or []],
    }
    return json.dumps(shown, indent=1, sort_keys=True) + "\n"


def _told(nodes: Sequence[str]) -> str:
    more = len(nodes) - _TOLD_NODES
    return ", ".join(nodes[:_TOLD_NODES]) + (f" and {more} more" if more > 0 else "") or "none has the label"


def nodes_of(pods: Sequence[Pod]) -> list[str]:
    return sorted({pod.node for pod in pods})
