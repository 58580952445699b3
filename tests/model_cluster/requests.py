# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of a model API server, and how it is merged into what there is. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.model_cluster.store import Object


class Refusal(Exception):
    """A Status that the server answers with."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }


class Asked(NamedTuple):
    collection: str  # "pods", "coordination.k8s.io/leases"
    namespace: str
    name: str  # "" for the collection
    part: str  # "" or a subresource, "resize"
    params: dict[str, str]

    @property
    def resource(self) -> str:
        """As calls are counted: "pods/resize"."""
        return "/".join(word for word in (self.collection.rpartition("/")[2], self.part) if word)


def parse_target(target: str) -> Asked:
    """/api/v1/namespaces/NS/pods/NAME/resize, /apis/GROUP/VERSION/..."""
    split = urlsplit(target)
    words = [unquote(word) for word in split.path.strip("/").split("/")]
    params = dict(parse_qsl(split.query))
    if words[:2] == ["api", "v1"]:
        group, rest = "", words[2:]
    elif words[0] == "apis" and len(words) > 3:
        group, rest = words[1] + "/", words[3:]
    else:
        return Asked(split.path, "", "", "", params)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    return Asked(group + rest[0], namespace, name, "/".join(rest[2:]), params)


def merged(before: Any, patch: Any) -> Any:
    """A merge patch (RFC 7396): null removes, a list replaces."""
    if not isinstance(patch, dict):
        return patch
    found = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


def strategic_merged(before: Any, patch: Any) -> Any:
    """As `merged`, but containers are found by their names (patchMergeKey of core/v1)."""
    if not isinstance(patch, dict):
        return patch
    found = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if key in ("containers", "initContainers") and isinstance(value, list):
            rows = {row["name"]: row for row in found.get(key, [])}
            for row in value:
                rows[row["name"]] = strategic_merged(rows.get(row["name"], {}), row)
            found[key] = list(rows.values())
        elif value is None:
            found.pop(key, None)
        else:
            found[key] = strategic_merged(found.get(key), value)
    return found


def check_preconditions(before: Object, metadata: Object, asked: Asked) -> None:
    """409, as the API server says it, where what was read is no longer what is there."""
    if metadata.get("resourceVersion") not in (None, "", before["metadata"]["resourceVersion"]):
        raise Refusal(
            409,
            "Conflict",
            f'Operation cannot be fulfilled on {asked.resource} "{asked.name}": the object has been modified; '
            "please apply your changes to the latest version and try again",
        )


def check_uid(before: Object, metadata: Object, asked: Asked) -> None:
    """422: a write that is meant for another object of the same name."""
    if metadata.get("uid") not in (None, before["metadata"]["uid"]):
        raise Refusal(422, "Invalid", f'"{asked.name}" is invalid: metadata.uid: Invalid value: field is immutable')


def selects(params: dict[str, str], namespace: str, item: Optional[Object]) -> bool:
    """Whether a list or a watch shows the object: its namespace, labels by `a=b`, fields by `a.b=c` and `a.b!=c`."""
    if item is None or (namespace and item["metadata"].get("namespace") != namespace):
        return False
    labels = item["metadata"].get("labels") or {}
    for term in filter(None, params.get("labelSelector", "").split(",")):
        key, _equals, value = term.partition("=")
        if labels.get(key) != value:
            return False
    for term in filter(None, params.get("fieldSelector", "").split(",")):
        key, _equals, value = term.partition("=")
        if (_field(item, key.rstrip("!")) == value) == key.endswith("!"):
            return False
    return True


def _field(item: Object, path: str) -> str:
    found: Any = item
    for word in path.split("."):
        found = found.get(word) if isinstance(found, dict) else None
    return str(found or "")
