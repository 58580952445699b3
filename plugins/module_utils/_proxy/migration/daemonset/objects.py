# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The DaemonSet and the ConfigMap of kube-proxy, and what canaries make of them. Pure.

    original    DaemonSet NAME and ConfigMap NAME, on nodes without the label of a canary's mode
    canary      DaemonSet NAME-MODE and ConfigMap NAME-MODE, on nodes with the label MODE_LABEL: MODE

While there are canaries the original has a node affinity, and the strategy OnDelete: a change of its template under
RollingUpdate would start every pod of it anew. The DaemonSet controller still removes the pod of a node that no longer
matches, whatever the strategy (pkg/controller/daemon, podsShouldBeOnNode). An annotation keeps what both were before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any, Optional

from ..config_file import changed_text
from ..installation import MODE_LABEL
from .messages import MESSAGES
from .model import MODES, Desired

Object = dict[str, Any]

RECORD = "ballast.kube/kube-proxy-canaries"  # of the original: `Record`, as JSON
CANARY_OF = "ballast.kube/kube-proxy-canary-of"  # of a canary's objects: the name of the original
_DIGEST = "ballast.kube/kube-proxy-config"  # of a canary's template: a changed configuration starts its pods anew
CONFIG = "config.conf"
ON_DELETE: Object = {"type": "OnDelete"}
_NODES = "requiredDuringSchedulingIgnoredDuringExecution"
HASH = "controller-revision-hash"  # of a pod: the revision of the template that it was made from


@dataclass(frozen=True)
class Record:
    """`modes` that have canaries, and what the original was before the first: its affinity and its updateStrategy.
    `finishing` is the mode that is being made that of all nodes, "" for none."""

    modes: tuple[str, ...]
    affinity: Optional[Object]
    updateStrategy: Object
    finishing: str = ""

    def as_text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


def record_of(daemonset: Object) -> Record:
    """Of an original without canaries: as it is."""
    text = annotations_of(daemonset).get(RECORD)
    if text is None:
        return Record((), affinity(daemonset), deepcopy(daemonset["spec"].get("updateStrategy") or {}))
    try:
        found = json.loads(text)
        record = Record(tuple(found["modes"]), found["affinity"], found["updateStrategy"], found["finishing"])
    except (ValueError, KeyError, TypeError) as error:
        raise _changed(daemonset, f"its annotation {RECORD}") from error
    well = {*map(str, record.modes)} <= {*MODES} and record.finishing in ("", *record.modes)
    well = well and isinstance(record.updateStrategy, dict)
    if not well or not isinstance(record.affinity, (dict, type(None))):
        raise _changed(daemonset, f"its annotation {RECORD}")
    return record


def annotations_of(found: Object) -> Mapping[str, str]:
    return found["metadata"].get("annotations") or {}


def affinity(daemonset: Object) -> Optional[Object]:
    found: Optional[Object] = deepcopy(daemonset["spec"]["template"]["spec"].get("affinity"))
    return found


def excluding(original: Optional[Object], modes: Sequence[str]) -> Optional[Object]:
    """The affinity, and on no node with the label of one of the modes. Terms are alternatives: each gets it."""
    if not modes:
        return deepcopy(original)
    found: Object = {} if original is None else deepcopy(original)
    required = found.setdefault("nodeAffinity", {}).setdefault(_NODES, {})
    not_in = {"key": MODE_LABEL, "operator": "NotIn", "values": sorted(modes)}
    required["nodeSelectorTerms"] = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or []), not_in]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
    return found


def with_canaries(daemonset: Object, modes: Sequence[str], *, finishing: str = "") -> Object:
    """The original beside canaries of these modes. PeerError where somebody has changed what we had set."""
    record = _as_we_left_it(daemonset)
    found = deepcopy(daemonset)
    wanted = replace(record, modes=tuple(sorted(modes)), finishing=finishing)
    found["metadata"]["annotations"] = {**annotations_of(daemonset), RECORD: wanted.as_text()}
    found["spec"]["updateStrategy"] = dict(ON_DELETE)
    _set_affinity(found, excluding(record.affinity, modes))
    return found


def for_all_nodes(daemonset: Object) -> Object:
    """The original with its template as it was before; strategy and record stay, so that no pod is started anew."""
    record = _as_we_left_it(daemonset)
    found = deepcopy(daemonset)
    _set_affinity(found, record.affinity)
    return found


def as_it_was(daemonset: Object) -> Object:
    """The original without any trace of canaries."""
    found = for_all_nodes(daemonset)
    found["spec"]["updateStrategy"] = record_of(daemonset).updateStrategy
    found["metadata"]["annotations"] = {
        name: text for name, text in annotations_of(daemonset).items() if name != RECORD
    }
    return found


def canary_set(daemonset: Object, config_map: Object, desired: Desired) -> Object:
    """The DaemonSet of the mode, copied from the original; `config_map` is that of the mode."""
    original = as_it_was(daemonset) if RECORD in annotations_of(daemonset) else daemonset
    spec: Object = deepcopy(original["spec"])
    template = spec["template"]
    labels = _own_labels(original, desired)
    spec["selector"] = {"matchLabels": labels}
    digest = hashlib.sha256(json.dumps(config_map["data"], sort_keys=True).encode()).hexdigest()[:16]
    template["metadata"] = {
        **{key: part for key, part in template["metadata"].items() if part is not None},
        "labels": {**(template["metadata"].get("labels") or {}), **labels},
        "annotations": {**(template["metadata"].get("annotations") or {}), _DIGEST: digest},
    }
    template["spec"]["nodeSelector"] = {**(template["spec"].get("nodeSelector") or {}), MODE_LABEL: desired.mode}
    for volume in template["spec"]["volumes"]:
        if (volume.get("configMap") or {}).get("name") == desired.name:
            volume["configMap"]["name"] = desired.canary
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": _canary_metadata(original, desired),
        "spec": spec,
    }


def canary_map(config_map: Object, desired: Desired) -> Object:
    """The ConfigMap of the mode, copied from the original."""
    data = dict(config_map["data"])
    where = f"{CONFIG} of ConfigMap {desired.name}"
    data[CONFIG] = changed_text(data[CONFIG], {**desired.config, "mode": desired.mode}, path=where)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _canary_metadata(config_map, desired), "data": data}


def check_shape(daemonset: Object, config_map: Object, desired: Desired) -> None:
    """PeerError where it is not of the form that kubeadm makes, by which a copy of it would not be what it seems."""
    spec = daemonset["spec"]
    volumes = spec["template"]["spec"].get("volumes") or []
    reason = ""
    if not any((volume.get("configMap") or {}).get("name") == desired.name for volume in volumes):
        reason = f"its pods do not mount ConfigMap {desired.name}"
    elif not isinstance((config_map.get("data") or {}).get(CONFIG), str):
        reason = f"ConfigMap {desired.name} has no {CONFIG}"
    elif spec["selector"].get("matchExpressions") or not spec["selector"].get("matchLabels"):
        reason = "its selector has other than matchLabels"
    if reason:
        raise MESSAGES.error("daemonset-shape", name=desired.name, reason=reason)


def same(found: Optional[Object], wanted: Object) -> bool:
    """Whether what is there is as wanted, in what we set: spec or data, our annotations, labels."""
    return found is not None and essence(found) == essence(wanted)


def essence(found: Object) -> Object:
    """What somebody may have set, without what the API server and controllers keep in the object."""
    spec = deepcopy(found.get("spec"))
    if isinstance(spec, dict) and isinstance(spec.get("template"), dict):
        spec["template"]["metadata"].pop("creationTimestamp", None)  # null, in answers of versions before 1.35
    ours = {name: text for name, text in annotations_of(found).items() if name in (RECORD, CANARY_OF)}
    return {"labels": found["metadata"].get("labels") or {}, "ours": ours, "spec": spec, "data": found.get("data")}


def is_canary_of(found: Object, desired: Desired) -> bool:
    return annotations_of(found).get(CANARY_OF) == desired.name


def apart_from_affinity(template: Object) -> Object:
    """What decides of a pod that runs already: a template as it is, or as a ControllerRevision keeps it."""
    found = deepcopy(template)
    found.pop("$patch", None)
    found["spec"].pop("affinity", None)
    found.get("metadata", {}).pop("creationTimestamp", None)
    return found


def _as_we_left_it(daemonset: Object) -> Record:
    """What canaries have set there must be as we set it, or as it was before, where a run ended in between."""
    record = record_of(daemonset)
    if RECORD not in annotations_of(daemonset):
        return record
    if affinity(daemonset) not in (excluding(record.affinity, record.modes), record.affinity):
        raise _changed(daemonset, "spec.template.spec.affinity")
    if daemonset["spec"].get("updateStrategy") not in (ON_DELETE, record.updateStrategy):
        raise _changed(daemonset, "spec.updateStrategy")
    return record


def _changed(daemonset: Object, field: str) -> Exception:
    return MESSAGES.error("daemonset-changed", name=daemonset["metadata"]["name"], field=field)


def _set_affinity(daemonset: Object, wanted: Optional[Object]) -> None:
    pod = daemonset["spec"]["template"]["spec"]
    if wanted is None:
        pod.pop("affinity", None)
    else:
        pod["affinity"] = deepcopy(wanted)


def _own_labels(daemonset: Object, desired: Desired) -> dict[str, str]:
    """For the pods of the mode, of which the original's selector knows nothing."""
    return dict.fromkeys(daemonset["spec"]["selector"]["matchLabels"], desired.canary)


def _canary_metadata(original: Object, desired: Desired) -> Object:
    return {
        "name": desired.canary,
        "namespace": desired.namespace,
        "labels": dict(original["metadata"].get("labels") or {}),
        "annotations": {CANARY_OF: desired.name},
    }
