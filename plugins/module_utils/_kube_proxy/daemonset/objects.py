# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""kube-proxy's DaemonSet and ConfigMap, and their canaries: pure functions from objects to objects.

    original    DaemonSet NAME and ConfigMap NAME, on nodes without the label of a canary's mode
    canary      DaemonSet NAME-MODE and ConfigMap NAME-MODE, on nodes with the label MODE_LABEL: MODE

While there are canaries, the original has a node affinity and the strategy OnDelete: with RollingUpdate, a change of its
template would restart all its pods. The DaemonSet controller removes the pod of a node that no longer matches, whatever the
strategy (pkg/controller/daemon, podsShouldBeOnNode). An annotation keeps the original affinity and strategy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any, Optional

from ..._core.text.json_text import parse_json
from ..config_file import changed_text, parse_config
from ..installation import MODE_LABEL
from .messages import MESSAGES
from .model import MODES, DaemonSetRequest

Object = dict[str, Any]

RECORD = "ballast.kube/kube-proxy-canaries"  # annotation of the original: `Record`, as JSON
CANARY_OF = "ballast.kube/kube-proxy-canary-of"  # annotation of a canary's objects: the name of the original
FORMER = "ballast.kube/kube-proxy-former-config"  # annotation of the original's ConfigMap: `Former`, as JSON
_DIGEST = "ballast.kube/kube-proxy-config"  # of a canary's template: a changed configuration restarts its pods
CONFIG = "config.conf"
ON_DELETE: Object = {"type": "OnDelete"}
_NODES = "requiredDuringSchedulingIgnoredDuringExecution"
_OURS = (RECORD, CANARY_OF, FORMER)
_DEFAULT_MODE = "iptables"  # if a configuration names none
HASH = "controller-revision-hash"  # label of a pod: the revision of the template that it was made from


@dataclass(frozen=True)
class Record:
    """`modes` that have canaries; the original's affinity and updateStrategy before the first canary; `finishing`, the mode
    that is becoming that of all nodes, "" for none."""

    modes: tuple[str, ...]
    affinity: Optional[Object]
    updateStrategy: Object
    finishing: str = ""

    def as_text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class Former:
    """The original's configuration before `final` changed its mode: `text`, with mode `mode`. `written` is the digest of the
    configuration that replaced it: if the current one has another digest, somebody has edited it and the record is
    obsolete."""

    mode: str
    text: str
    written: str


def former_of(config_map: Object) -> Optional[Former]:
    """The record; None if the configuration is not as `final` left it."""
    note = annotations_of(config_map).get(FORMER)
    if note is None:
        return None
    try:
        fields = parse_json(note)
        former = Former(str(fields["mode"]), str(fields["text"]), str(fields["written"]))
    except (ValueError, KeyError, TypeError) as error:
        raise _changed_error(config_map, f"its annotation {FORMER}") from error
    return former if former.written == _digest_of(config_map["data"][CONFIG]) else None


def finished_map(config_map: Object, canary_text: str, desired: DaemonSetRequest) -> Object:
    """The original's ConfigMap with the canary's configuration, whose mode becomes that of all nodes. An annotation keeps
    the former configuration until its mode is in use again."""
    text = config_map["data"][CONFIG]
    if text == canary_text:
        return config_map
    annotations = {name: note for name, note in annotations_of(config_map).items() if name != FORMER}
    former, mode = former_of(config_map), _mode_of(text, desired)
    if mode != desired.mode and (former is None or former.mode != desired.mode):
        annotations[FORMER] = json.dumps(asdict(Former(mode, text, _digest_of(canary_text))), sort_keys=True)
    metadata = {name: value for name, value in config_map["metadata"].items() if name != "annotations"}
    if annotations:
        metadata["annotations"] = annotations
    return {**config_map, "metadata": metadata, "data": {**config_map["data"], CONFIG: canary_text}}


def _mode_of(text: str, desired: DaemonSetRequest) -> str:
    return str(parse_config(text, path=_where(desired)).get("mode") or _DEFAULT_MODE)


def _where(desired: DaemonSetRequest) -> str:
    return f"{CONFIG} of ConfigMap {desired.name}"


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def record_of(daemonset: Object) -> Record:
    """The record in the annotation; without one there are no canaries."""
    text = annotations_of(daemonset).get(RECORD)
    if text is None:
        return Record((), affinity(daemonset), deepcopy(daemonset["spec"].get("updateStrategy") or {}))
    try:
        fields = parse_json(text)
        record = Record(tuple(fields["modes"]), fields["affinity"], fields["updateStrategy"], fields["finishing"])
    except (ValueError, KeyError, TypeError) as error:
        raise _changed_error(daemonset, f"its annotation {RECORD}") from error
    is_valid = {*map(str, record.modes)} <= {*MODES} and record.finishing in ("", *record.modes)
    is_valid = is_valid and isinstance(record.updateStrategy, dict)
    if not is_valid or not isinstance(record.affinity, (dict, type(None))):
        raise _changed_error(daemonset, f"its annotation {RECORD}")
    return record


def annotations_of(item: Object) -> Mapping[str, str]:
    return item["metadata"].get("annotations") or {}


def affinity(daemonset: Object) -> Optional[Object]:
    """A copy of the affinity of its pods; None if they have none."""
    copy: Optional[Object] = deepcopy(daemonset["spec"]["template"]["spec"].get("affinity"))
    return copy


def excluding(original: Optional[Object], modes: Sequence[str]) -> Optional[Object]:
    """The affinity, extended to exclude nodes with the label of one of the modes. Terms are alternatives, so each is
    extended."""
    if not modes:
        return deepcopy(original)
    result: Object = {} if original is None else deepcopy(original)
    required = result.setdefault("nodeAffinity", {}).setdefault(_NODES, {})
    not_in = {"key": MODE_LABEL, "operator": "NotIn", "values": sorted(modes)}
    required["nodeSelectorTerms"] = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or []), not_in]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
    return result


def with_canaries(daemonset: Object, modes: Sequence[str], *, finishing: str = "") -> Object:
    """The original next to canaries of these modes. PeerError if somebody has changed our settings."""
    record = _checked_record(daemonset)
    changed = deepcopy(daemonset)
    changed_record = replace(record, modes=tuple(sorted(modes)), finishing=finishing)
    changed["metadata"]["annotations"] = {**annotations_of(daemonset), RECORD: changed_record.as_text()}
    changed["spec"]["updateStrategy"] = dict(ON_DELETE)
    _set_affinity(changed, excluding(record.affinity, modes))
    return changed


def for_all_nodes(daemonset: Object) -> Object:
    """The original with its first template. Strategy and annotation are kept, so that no pod restarts."""
    record = _checked_record(daemonset)
    restored = deepcopy(daemonset)
    _set_affinity(restored, record.affinity)
    return restored


def without_canaries(daemonset: Object) -> Object:
    """The original as it was before the first canary."""
    restored = for_all_nodes(daemonset)
    restored["spec"]["updateStrategy"] = record_of(daemonset).updateStrategy
    restored["metadata"]["annotations"] = {
        name: text for name, text in annotations_of(daemonset).items() if name != RECORD
    }
    return restored


def canary_set(daemonset: Object, config_map: Object, desired: DaemonSetRequest) -> Object:
    """The mode's DaemonSet, copied from the original; `config_map` is that of the mode."""
    original = without_canaries(daemonset) if RECORD in annotations_of(daemonset) else daemonset
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


def canary_map(config_map: Object, desired: DaemonSetRequest) -> Object:
    """The mode's ConfigMap, copied from the original. If the original used this mode before, it gets the configuration of
    that time."""
    data = dict(config_map["data"])
    former = former_of(config_map)
    text = former.text if former is not None and former.mode == desired.mode else data[CONFIG]
    data[CONFIG] = changed_text(text, {**desired.config, "mode": desired.mode}, path=_where(desired))
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _canary_metadata(config_map, desired), "data": data}


def check_shape(daemonset: Object, config_map: Object, desired: DaemonSetRequest) -> None:
    """PeerError if the objects do not have kubeadm's form, since a copy of them might not work."""
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


def same(current: Optional[Object], target: Object) -> bool:
    """Whether spec or data, labels and our annotations are equal."""
    return current is not None and essence(current) == essence(target)


def essence(item: Object) -> Object:
    """The fields that people set, without those of the API server and controllers."""
    spec = deepcopy(item.get("spec"))
    if isinstance(spec, dict) and isinstance(spec.get("template"), dict):
        spec["template"]["metadata"].pop("creationTimestamp", None)  # null in responses of versions before 1.35
    ours = {name: text for name, text in annotations_of(item).items() if name in _OURS}
    return {"labels": item["metadata"].get("labels") or {}, "ours": ours, "spec": spec, "data": item.get("data")}


def is_canary_of(item: Object, desired: DaemonSetRequest) -> bool:
    return annotations_of(item).get(CANARY_OF) == desired.name


def without_affinity(template: Object) -> Object:
    """A template, or the copy in a ControllerRevision, without the fields that do not affect a running pod."""
    result = deepcopy(template)
    result.pop("$patch", None)
    result["spec"].pop("affinity", None)
    result.get("metadata", {}).pop("creationTimestamp", None)
    return result


def _checked_record(daemonset: Object) -> Record:
    """Check that our settings are as we left them, or still the original ones if a run ended early."""
    record = record_of(daemonset)
    if RECORD not in annotations_of(daemonset):
        return record
    if affinity(daemonset) not in (excluding(record.affinity, record.modes), record.affinity):
        raise _changed_error(daemonset, "spec.template.spec.affinity")
    if daemonset["spec"].get("updateStrategy") not in (ON_DELETE, record.updateStrategy):
        raise _changed_error(daemonset, "spec.updateStrategy")
    return record


def _changed_error(daemonset: Object, field: str) -> Exception:
    return MESSAGES.error("daemonset-changed", name=daemonset["metadata"]["name"], field=field)


def _set_affinity(daemonset: Object, new_affinity: Optional[Object]) -> None:
    pod = daemonset["spec"]["template"]["spec"]
    if new_affinity is None:
        pod.pop("affinity", None)
    else:
        pod["affinity"] = deepcopy(new_affinity)


def _own_labels(daemonset: Object, desired: DaemonSetRequest) -> dict[str, str]:
    """The labels of the canary's pods, which the original's selector does not match."""
    return dict.fromkeys(daemonset["spec"]["selector"]["matchLabels"], desired.canary)


def _canary_metadata(original: Object, desired: DaemonSetRequest) -> Object:
    return {
        "name": desired.canary,
        "namespace": desired.namespace,
        "labels": dict(original["metadata"].get("labels") or {}),
        "annotations": {CANARY_OF: desired.name},
    }
