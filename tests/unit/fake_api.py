# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An API server of objects by path, behind a FakeHost: it numbers versions, refuses what is out of date, merges patches.

cluster = FakeApi()
cluster.add("/api/v1/nodes/n1", {"metadata": {"name": "n1"}})
cluster.api.patch("/api/v1/nodes/n1", ...)
cluster.stored = drop                      # what it makes of an object before it keeps it
cluster.before["/api/v1/nodes/n1"] = act   # called once, ahead of the next change of that object
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Optional
from urllib.parse import parse_qs

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Api
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import Credentials
from tests.unit.fakes import FakeHost, json_answer

SERVER = "https://192.0.2.1:6443"


class FakeApi:
    def __init__(self) -> None:
        self.host = FakeHost()
        self.api = Api(self.host, Credentials(server=SERVER))
        self.objects: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, Response] = {}  # to GET, of what is no object
        self.stored: Callable[[dict[str, Any]], dict[str, Any]] = dict
        self.before: dict[str, Callable[[], None]] = {}
        self._version = 0
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            self.host.answer(SERVER, lambda url, body, method=method: self._answer(method, url, body), method=method)

    @property
    def changes(self) -> list[str]:
        """`POST /api/v1/...`, in order; a dry run is none."""
        asked = [(method, url[len(SERVER) :]) for method, url, _body in self.host.requests if method != "GET"]
        return [f"{method} {url.split('?')[0]}" for method, url in asked if "dryRun=All" not in url]

    def add(self, path: str, body: dict[str, Any]) -> None:
        self._version += 1
        metadata = {"uid": f"uid-{self._version}", **body["metadata"], "resourceVersion": str(self._version)}
        self.objects[path] = {**body, "metadata": metadata}

    def _answer(self, method: str, url: str, body: Optional[bytes]) -> Response:
        path, _mark, query = url[len(SERVER) :].partition("?")
        given = json.loads(body) if body else {}
        if method != "GET" and path in self.before:
            self.before.pop(path)()
        if method == "GET":
            return self._read(path, parse_qs(query))
        if method == "POST":
            path = f"{path}/{given['metadata']['name']}"
            if path in self.objects:
                return json_answer(409, {"message": "already exists"})
            return self._keep(path, given, query)
        found = self.objects.get(path)
        if found is None:
            return json_answer(404, {"message": "not found"})
        asked = given.get("preconditions", given.get("metadata", {}))
        if any(asked.get(key) not in (None, found["metadata"][key]) for key in ("uid", "resourceVersion")):
            return json_answer(409, {"message": "the object has been modified"})
        if method == "DELETE":
            return json_answer(200, self.objects.pop(path))
        return self._keep(path, given if method == "PUT" else _merged(found, given), query)

    def _read(self, path: str, query: dict[str, list[str]]) -> Response:
        if path in self.answers:
            return self.answers[path]
        if path in self.objects:
            return json_answer(200, self.objects[path])
        items = [one for key, one in self.objects.items() if key.rpartition("/")[0] == path]
        wanted = dict(pair.split("=") for text in query.get("labelSelector", []) for pair in text.split(","))
        chosen = [one for one in items if wanted.items() <= one["metadata"].get("labels", {}).items()]
        return json_answer(200 if query else 404, {"metadata": {"resourceVersion": "1"}, "items": chosen})

    def _keep(self, path: str, body: dict[str, Any], query: str) -> Response:
        kept = self.stored(body)
        if "dryRun=All" not in query:
            self.add(path, kept)
        return json_answer(200, kept if "dryRun=All" in query else self.objects[path])


def _merged(found: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(found) if isinstance(found, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
