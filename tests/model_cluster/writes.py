# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What writes of each verb do to the store of a model API server, and what of them it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.model_cluster.requests import Asked, Refusal, check_preconditions, check_uid, merged, strategic_merged
from tests.model_cluster.store import Object, Store

_MERGES = {
    "application/merge-patch+json": merged,
    "application/strategic-merge-patch+json": strategic_merged,
    "application/apply-patch+yaml": strategic_merged,
}


def absent(asked: Asked) -> Refusal:
    return Refusal(404, "NotFound", f'{asked.collection.rpartition("/")[2]} "{asked.name}" not found')


def _create(store: Store, asked: Asked, content_type: str, body: Object) -> Object:
    metadata = {**body["metadata"], **({"namespace": asked.namespace} if asked.namespace else {})}
    if store.get(asked.collection, metadata["name"], asked.namespace) is not None:
        raise Refusal(409, "AlreadyExists", f'{asked.resource} "{metadata["name"]}" already exists')
    return store.put(asked.collection, {**body, "metadata": metadata})


def _replace(store: Store, asked: Asked, content_type: str, body: Object) -> Object:
    before = _found(store, asked)
    check_preconditions(before, body["metadata"], asked)
    check_uid(before, body["metadata"], asked)
    return store.put(asked.collection, {**body, "metadata": {**before["metadata"], **body["metadata"]}})


def _patch(store: Store, asked: Asked, content_type: str, body: Any) -> Object:
    merge = _MERGES.get(content_type)
    if merge is None:
        raise Refusal(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {content_type}")
    if (
        content_type.startswith("application/apply")
        and store.get(asked.collection, asked.name, asked.namespace) is None
    ):
        return _create(store, asked, content_type, body)
    before = _found(store, asked)
    check_preconditions(before, body.get("metadata") or {}, asked)
    check_uid(before, body.get("metadata") or {}, asked)
    after = merge(before, body)
    after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
    if asked.part == "resize":
        if merge is not strategic_merged:
            raise Refusal(422, "Invalid", "a merge patch would replace the list of containers")
        after = _resized(before, after)
    if after == before:
        return before
    return store.put(asked.collection, after)


def _delete(store: Store, asked: Asked, content_type: str, body: Any) -> Object:
    before = _found(store, asked)
    preconditions = (body or {}).get("preconditions") or {}
    check_preconditions(before, preconditions, asked)
    if preconditions.get("uid") not in (None, before["metadata"]["uid"]):
        raise Refusal(
            409, "Conflict", f'Operation cannot be fulfilled on {asked.resource} "{asked.name}": UID in precondition'
        )
    store.drop(asked.collection, asked.name, asked.namespace)
    return {"kind": "Status", "apiVersion": "v1", "status": "Success"}


def _found(store: Store, asked: Asked) -> Object:
    found = store.get(asked.collection, asked.name, asked.namespace)
    if found is None:
        raise absent(asked)
    return found


def _resized(before: Object, after: Object) -> Object:
    """Through the subresource only the resources of containers change, each of them stays, and so does the QoS class."""
    name = before["metadata"]["name"]
    old = {row["name"]: row for row in before["spec"]["containers"]}
    new = {row["name"]: row for row in after["spec"]["containers"]}
    if list(old) != list(new) or any({**old[key], "resources": 0} != {**new[key], "resources": 0} for key in old):
        raise Refusal(422, "Invalid", f'Pod "{name}" is invalid: spec: Forbidden: only resources may be changed')
    if _qos(before) != _qos(after):
        raise Refusal(422, "Invalid", f'Pod "{name}" is invalid: spec: Invalid value: Pod QOS Class may not change')
    if after["spec"] != before["spec"]:
        after = {**after, "metadata": {**after["metadata"], "generation": before["metadata"].get("generation", 1) + 1}}
    return after


def _qos(pod: Object) -> str:
    rows = [row.get("resources") or {} for row in pod["spec"]["containers"]]
    requests = [
        {key: value for key, value in (row.get("requests") or {}).items() if value not in ("0", "0m")} for row in rows
    ]
    limits = [row.get("limits") or {} for row in rows]
    if not any(requests) and not any(limits):
        return "BestEffort"
    full = all(set(limit) >= {"cpu", "memory"} and limit == request for limit, request in zip(limits, requests))
    return "Guaranteed" if full else "Burstable"


WRITES: dict[str, Callable[[Store, Asked, str, Any], Object]] = {
    "POST": _create,
    "PUT": _replace,
    "PATCH": _patch,
    "DELETE": _delete,
}
